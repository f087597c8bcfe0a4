-- Reserve units of a limit for a node. reserve/call.lua says which arguments and reply there are; it and the other parts of
-- reserve/ are joined in front.
--
-- Refused nodes wait in a queue. They ask again in the order in which they were refused, each at its time; the units that
-- those ahead want are left to them. A place in the queue is the sum of the units that were wanted before it. A node that
-- asks at its time has let all before it pass. Each lane has a queue: see lanes.lua.
--
-- A large job may find too few units free each time, where smaller ones take them. So where units are granted for now, the
-- first node in the queue whose first job found too few earmarks what it counts. The earmark holds a little later: until then
-- all fill what is free with smaller jobs. From then on the others leave it that, and no job of its own passes the first one.
-- It asks again with each poll at least; the others wait for no node that is late.
local OLD_ENOUGH = 2000000 -- a node that is younger has no place in the queue: many that come and go would fill it
local SPARE = 100000 -- units that those ahead leave for this long go to whoever asks, and half of the reach at most
local SELDOM = 3500000 -- a node that waits in the queue polls no sooner than this, but for its own time
local LATEST = 6000000 -- nor later
local EARMARKS_AFTER = math.min(1000000, math.floor((c.window + c.guard) / 32)) -- when an earmark begins to hold

local earmark_of, earmarked, from, till = string.match(earmark or '', '^(%S+) (%d+) (%d+) (%d+)$')
if earmark_of and tonumber(till) <= now then earmark_of = nil end
from = tonumber(from)
insists = earmark_of == node and now >= from

if not stale then
  if GATES > 0 then states.read() end
  states.correct_timeline()
end
if want == 0 then
  if ticket > lane.served then lanes.pass() end -- it gives its place up: those behind it move on
  note('last', int(now))
  return nothing(0, 0, nil, waits and HOLD)
end
if waits then return nothing(HOLD, 0, ticket) end
if set.paused then
  note('last', int(now))
  return nothing(set.revert_at > 0 and math.min(POLL, set.revert_at - now) or POLL)
end

if slow.till > now then -- the provider wants no call
  note('last', int(now))
  return nothing(math.min(POLL, slow.till - now), 0, ticket)
end

if flag('d') and ticket >= 0 then lanes.set(lane, 'served', math.max(lane.served, math.min(lane.queued, ticket))) end
-- Where no node asks any more, all that were in the queue have left.
if lane.served < lane.queued and lanes.asks()[lanes.own] < now then lanes.set(lane, 'served', lane.queued) end
local ahead, poll = math.max(0, (ticket >= 0 and ticket or lane.queued) - lane.served), nil
local left = earmark_of and earmark_of ~= node and now >= from and tonumber(earmarked) or 0
local first_in_queue = ahead == 0
ahead = math.max(ahead, left)
lanes.farthest = reach > 0 and math.min(c.horizon, reach) or c.horizon
c.reach = lanes.reach > 0 and math.min(lanes.farthest, lanes.reach) or lanes.farthest
if room then most_jobs = room() end
if full then
  short = 1
  if ticket > lane.served then lanes.pass() end -- it gives its place in the queue up
  note('last', int(now))
  return nothing(FULL)
end
if GATES > 0 and stale then return nothing(FULL) end -- its keys are of an epoch before
if CHOOSES then picking.read_jobs() end
local units_wanted = needed(want)
local place -- in the queue, which a node keeps that got skipped slots alone
local least = first_cost -- take changes it
local owed = lanes.below and lanes.below() or 0
local slots, wait = take(want, ahead + owed)
if not slots and ahead == 0 and lane.credit >= 1 then
  local soonest
  c.reach = lanes.farthest
  slots, soonest = take(math.min(want, math.max(least, math.floor(lane.credit))), owed)
  wait = math.min(wait, soonest or wait) -- the lanes before leave it a unit until then
end
if barred and #chosen == 0 then -- the gates allow no job
  if ticket > lane.served then lanes.pass() end
  note('last', int(now))
  refused_jobs = picking.refusals()
  return nothing(0)
end
if now >= math.max(not_before, began or 0) then short = 2 end -- a timeline that has not begun is not full
if not slots and ahead > 0 and left == 0 and (AHEAD or lane.spare > 0 and now - lane.spare >= SPARE) then
  -- Units that were free for a while already, and that those ahead did not ask for, are anybody's.
  c.reach = c.reach - math.min(SPARE, math.floor(c.reach / 2))
  slots, poll = take(first_cost, 0)
  if not slots then
    local apart = c.period / c.units
    if poll < SELDOM then poll = poll + math.ceil((SELDOM - poll) / apart) * apart end
    poll = poll > LATEST and POLL or math.ceil(poll)
    if wait <= LATEST then poll = wait end -- its own time is near enough
  end
end
if not slots then
  if ticket < 0 and not barred and flag('w') and since > 0 and now - since >= OLD_ENOUGH then
    ticket = lane.queued
    lanes.set(lane, 'queued', ticket + units_wanted)
  end
  if ahead > 0 and lane.spare == 0 then lanes.set(lane, 'spare', now) end
else
  if ticket >= 0 then
    local took = AHEAD and (slots.behind or slots.given) or math.min(slots.given, units_wanted)
    if took > 0 or ahead == 0 then lanes.set(lane, 'served', math.max(lane.served, math.min(lane.queued, ticket + took)))
    else place = ticket end
  end
  lanes.set(lane, 'spare', 0)
  if lanes.granted then lanes.granted(c, slots.given) end
end
if lanes.waits then -- with slots it asks again when these are over
  lanes.waits((slots and c.horizon or math.min(wait, poll or POLL)) + SPARE)
end
if not AHEAD then -- make, renew or end the earmark of this node
  local first = CHOOSES and picking.first_allowed(soon)
  if first and not first.picked and (earmark_of == node or not earmark_of and first_in_queue) then
    if earmark_of ~= node then from = now + EARMARKS_AFTER end
    till = math.max(from, now + math.min(slots and 0 or wait, LATEST)) + SPARE
    note('earmark', node .. ' ' .. int(first.units) .. ' ' .. int(from) .. ' ' .. int(till))
  elseif earmark_of == node then note('earmark', '') end
end
note('last', int(now))
if not slots then
  if CHOOSES then refused_jobs = picking.refusals() end
  return nothing(wait, 0, ticket, poll)
end
if shared(slots.given, math.huge) == most_jobs then short = 1 end
local given, first, nth, floor = slots.given, slots.base or soon, slots.n or 0, slots.floor or soon
local units, period, debt = slots.units or 1, slots.period or 1, slots.debt or slots.given -- by default all are for now
if not CHOOSES then
  local of_jobs = int((shared(given, most_jobs)))
  local kept = {seq, epoch, int(given), int(first), int(nth), int(floor), int(units), int(period), int(debt), of_jobs}
  redis.call('SET', reserved, table.concat(kept, ' '), 'PX', int(math.ceil((set.horizon + set.lateness) / 1000) + 1000))
else -- slots belong to these jobs: a lost reply does not come again to others
  granted_jobs = picking.charge()
  refused_jobs = picking.refusals()
end
return reply(given, first, nth, floor, units, period, debt, 0, 0, place)
