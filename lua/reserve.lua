-- Reserve units of a limit for a node. reserve/call.lua says which arguments and reply there are; it and the other parts of
-- reserve/ are joined in front.
--
-- Refused nodes wait in a queue. They ask again in the order in which they were refused, each at its time; the units that
-- those ahead want are left to them. A place in the queue is the sum of the units that were wanted before it. A node that
-- asks at its time has let all before it pass.
--
-- A job of several units may find too few free each time, where others take them one by one. So where units are granted for
-- now, the first node in the queue gathers: the others leave it what its first job counts. It asks again with each poll at
-- least; the others wait for no node that is late.
local SETTLED = 2000000 -- a node that is younger has no place in the queue: many that come and go would fill it
local SPARE = 100000 -- units that those ahead leave for this long go to whoever asks, and half of the reach at most
local SELDOM = 3500000 -- a node that waits in the queue polls no sooner than this, but for its own time
local LATEST = 6000000 -- nor later

local before = served
if flag('d') and ticket >= 0 then served = math.max(served, ticket) end
local ahead, poll = math.max(0, (ticket >= 0 and ticket or queued) - served), nil
local gatherer, gathered, till = string.match(gathers or '', '^(%S+) (%d+) (%d+)$')
local left = gatherer and gatherer ~= node and tonumber(till) > now and tonumber(gathered) or 0 -- to the node that gathers
ahead = math.max(ahead, left)
c.reach = reach > 0 and math.min(c.horizon, reach) or c.horizon
most_jobs = room()
if full then
  cut = true
  if ticket > served then note('served', int(math.min(queued, served + 1))) end -- it gives its place in the queue up
  note('last', int(now))
  return nothing(FULL)
end
local slots, wait = algorithm.take(c, now, want, lead, ahead, not_before)
if not slots and ahead == 0 and first_cost > 1 and first_cost <= c.max_cost and not AHEAD then
  slots, wait = algorithm.take(c, now, first_cost, lead, 0, not_before)
  if not slots then note('gathers', node .. ' ' .. int(first_cost) .. ' ' .. int(now + math.min(wait, LATEST) + SPARE)) end
end
if not slots and ahead > 0 and left == 0 and (AHEAD or spare > 0 and now - spare >= SPARE) then
  -- Units that were free for a while already, and that those ahead did not ask for, are anybody's.
  c.reach = c.reach - math.min(SPARE, math.floor(c.reach / 2))
  slots, poll = algorithm.take(c, now, first_cost, lead, 0, not_before)
  if not slots then
    local apart = c.period / c.units
    if poll < SELDOM then poll = poll + math.ceil((SELDOM - poll) / apart) * apart end
    poll = poll > LATEST and POLL or math.ceil(poll)
    if wait <= LATEST then poll = wait end -- its own time is near enough
  end
end
if not slots then
  if ticket < 0 and flag('w') and since > 0 and now - since >= SETTLED then
    ticket, queued = queued, queued + want
    note('queued', int(queued))
  end
  if ahead > 0 and spare == 0 then note('spare', int(now)) end
else
  if ticket >= 0 then served = math.max(served, math.min(queued, ticket + slots.given)) end
  if spare > 0 then note('spare', 0) end
  if gatherer == node then note('gathers', '') end
end
if served ~= before then note('served', int(served)) end
note('last', int(now))
if not slots then return nothing(wait, 0, ticket, poll) end
cut = shared(slots.given, math.huge) == most_jobs
local given, first, nth, floor = slots.given, slots.base or now, slots.n or 0, slots.floor or now
local units, period, debt = slots.units or 1, slots.period or 1, slots.debt or slots.given -- by default all are for now
local kept = {seq, epoch, int(given), int(first), int(nth), int(floor), int(units), int(period), int(debt), int((shared(given, most_jobs)))}
redis.call('SET', reserved, table.concat(kept, ' '),
  'PX', int(math.ceil((set.horizon + set.lateness) / 1000) + 1000))
return reply(given, first, nth, floor, units, period, debt, 0, 0)
