-- with pace.lua
-- A token bucket that is reserved ahead: slots on one exact timeline, each used at its own time. A bucket of burst is
-- refilled at units / period = (cap - reserve - burst + 1) / (window + guard), so that no window + guard holds more
-- slots than the cap, whatever burst was taken. leaky_bucket is this with a burst of 1: nothing is stored for later, and
-- the reach bounds how many units wait in it.
--
-- All units of a job go at its first slot. A window then holds the slots in it and, of its last job, up to max_cost - 1
-- units more. units is smaller by as many.
--
-- Where slots may go to any of the jobs that ask, one that no gate lets any of them have is skipped. It stays free for a job
-- of one unit until its time has come. A job of several units needs slots in a row, which lie behind the last one granted.
--
-- In the limit's hash: base and n, from which slot j, from 0, lies n + j - burst + 1 spacings away; slot, the last one
-- granted; passed, see pace.lua; skipped, the times of the slots that were, in order.
local algorithm = {fields = {'base', 'n', 'slot', 'passed', 'skipped'}, texts = {skipped = true}}
local SKIPS = 64 -- slots that one call skips, at most; twice as many are kept

function algorithm.intact(c) return c.base and c.n and c.slot end

-- cooldown: the next slot lies one spacing behind the last one, and that up to max_cost - 1 behind the time of its job.
-- Jobs that may be larger than those before need as much: see change. After a whole window nothing counts any more.
function algorithm.cooldown(c) return math.min(after(c, c.max_cost), c.window + c.guard) end

-- begin starts with an empty bucket.
function algorithm.begin(c, not_before)
  note('base', int(not_before))
  note('n', int(c.burst - 1))
  note('slot', int(not_before))
  note('passed', 0)
  note('skipped', '')
end

-- change begins the new timeline behind the last slot granted, at the shorter of the two spacings: each window then
-- holds no more than the larger of the two caps. A burst that was granted is a debt in time, which base still holds
-- after a change; it is paid first, but no longer than a window takes to pass. Larger jobs begin max_cost spacings later:
-- the first one goes at once, behind slots that may lie closer to each other than its own.
function algorithm.change(c, old, now, not_before)
  if c.cap == old.cap and c.window == old.window and c.burst == old.burst and c.guard == old.guard
    and c.max_cost == old.max_cost then return nil end
  local behind = c.base + after(old, c.n)
  if old.burst == 1 then behind = math.max(c.base, c.slot + math.min(after(old, 1), after(c, 1))) end
  behind = behind + math.max(0, old.guard - c.guard) -- the last ones may be as late as the old guard allowed
  if c.max_cost > old.max_cost then behind = behind + after(c, c.max_cost) end
  local from = math.max(now, not_before, math.min(behind, passed(c, old)))
  c.base, c.n = from, c.burst - 1
  note('base', int(c.base))
  note('n', int(c.n))
  note('skipped', '')
  c.skipped = ''
  return from
end

-- before_last returns how many units the jobs count that stand before the last one, where all want that many or the first
-- one does.
local function before_last(want)
  return want - (want > first_cost and tonumber(string.match(costs, '%d+$') or 1) or first_cost)
end

-- skipped returns when the slots lie that were skipped, from a time on.
local function skipped(c, from)
  local times = {}
  for word in string.gmatch(c.skipped or '', '%d+') do
    if tonumber(word) >= from then times[#times + 1] = tonumber(word) end
  end
  return times
end

-- offer returns slots that can be granted now: at(j), for j from 0 below free, in order. The first ones, singles, were
-- skipped before. want is how many units more are wanted. Where none is free, wait is how long.
function algorithm.offer(c, now, want, nearest, ahead)
  local base, n, skips = c.base, c.n, CHOOSES and c.burst == 1
  local floor, debt = now + nearest, c.burst - 1
  local times, near = skips and skipped(c, floor) or {}, 0
  while near < #times and times[near + 1] <= now + c.reach do near = near + 1 end
  if base + after(c, n) < floor then base, n = floor, 0 end -- idle: begin again, and store no more than the burst
  local function behind(j) return math.max(floor, base + after(c, n + j - debt)) end -- the last one that was granted
  local free = within(c, now + c.reach - base) + 1 - n + debt - ahead
  return {
    base = base, n = n, floor = floor, debt = debt, skips = skips, times = times, singles = near,
    free = near + math.max(0, math.min(free, skips and want + SKIPS or want)),
    at = function(j) return j < near and times[j + 1] or behind(j - near) end,
    wait = math.max(0, behind(ahead + before_last(want)) - now - c.reach),
  }
end

-- advance moves the timeline on behind the slots of an offer below stop.
local function advance(c, offer, stop)
  local count = offer.n + stop - offer.singles
  -- Exact, and keeps n - debt from 1 to units; base stays behind the last one granted: change needs it.
  local turned = math.max(0, math.floor((count - 1 - offer.debt) / c.units))
  note('base', int(offer.base + turned * c.period))
  note('n', int(count - turned * c.units))
  note('slot', int(offer.at(stop - 1)))
end

-- grant grants slots of an offer to jobs, in order: to each as many as it counts, from its index on.
function algorithm.grant(c, offer, jobs)
  local taken, free, stop = {}, {}, offer.singles
  for _, job in ipairs(jobs) do taken[job.index] = true end
  for j, time in ipairs(offer.times) do
    if j > offer.singles or not taken[j - 1] then free[#free + 1] = int(time) end
  end
  for _, job in ipairs(jobs) do
    for j = stop, job.index - 1 do free[#free + 1] = int(offer.at(j)) end
    stop = math.max(stop, job.index + job.units)
  end
  if stop > offer.singles then advance(c, offer, stop) end
  local text = table.concat(free, ' ', 1, math.min(#free, 2 * SKIPS))
  if offer.skips and text ~= c.skipped then note('skipped', text) end
end

function algorithm.take(c, now, want, nearest, ahead)
  local offer = algorithm.offer(c, now, want, nearest, ahead)
  local given = fitting(c, offer.free, want)
  if given == 0 then return nil, offer.wait end
  advance(c, offer, given)
  return {
    given = given, base = offer.base, n = offer.n, floor = offer.floor, units = c.units, period = c.period, debt = offer.debt,
  }
end
