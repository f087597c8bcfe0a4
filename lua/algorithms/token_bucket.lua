-- with pace.lua
-- A token bucket that is reserved ahead: slots on one exact timeline, each used at its own time. A bucket of burst is
-- refilled at units / period = (cap - reserve - burst + 1) / (window + guard), so that no window + guard holds more
-- slots than the cap, whatever burst was taken. leaky_bucket is this with a burst of 1: nothing is stored for later, and
-- the reach bounds how many units wait in it.
--
-- All units of a job go at its first slot. A window then holds the slots in it and, of its last job, up to max_cost - 1
-- units more. units is smaller by as many.
--
-- Where slots may go to any of the jobs that ask, those that no gate lets any of them have are skipped. They stay free until
-- their time has come.
--
-- Slots have numbers: slot m, from burst - 1 on, lies m - burst + 1 spacings behind base. In the limit's hash: base; n, the
-- first slot behind all that were granted; slot, when the last one of these lies; passed, see pace.lua; skipped, the runs of
-- slots that were skipped, "base from:count from:count", in order. When base moves on, numbers become smaller, also below 0.
local algorithm = {fields = {'base', 'n', 'slot', 'passed', 'skipped'}, texts = {skipped = true}}
local RUNS = 128 -- of skipped slots that are kept, at most: those that lie last

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

-- repaced goes on at another pace that the provider's answers made, and leaves the bucket as full as it is. The next slot lies
-- where it lay, or now if that is over. What is stored was stored at the old pace. So the bucket is never fuller than under
-- the contract's pace alone.
local function repaced(c, old, now)
  local next_slot = c.base + after(old, c.n - c.burst + 1)
  local stored = math.max(0, math.min(c.burst - 1, within(old, now - next_slot)))
  c.base, c.n = math.max(now, next_slot), c.burst - 1 - stored
  note('base', int(c.base))
  note('n', int(c.n))
end

-- change begins the new timeline behind the last slot granted, at the shorter of the two spacings: each window then
-- holds no more than the larger of the two caps. A burst that was granted is a debt in time, which base still holds
-- after a change; it is paid first, but no longer than a window takes to pass. Larger jobs begin max_cost spacings later:
-- the first one goes at once, behind slots that may lie closer to each other than its own.
function algorithm.change(c, old, now, not_before)
  if c.stated == old.stated and c.window == old.window and c.burst == old.burst and c.guard == old.guard
    and c.max_cost == old.max_cost then
    if c.period ~= old.period then repaced(c, old, now) end
    return nil
  end
  local behind = c.base + after(old, c.n)
  if old.burst == 1 then behind = math.max(c.base, c.slot + math.min(after(old, 1), after(c, 1))) end
  behind = behind + math.max(0, old.guard - c.guard) -- the last ones may be as late as the old guard allowed
  if c.max_cost > old.max_cost then behind = behind + after(c, c.max_cost) end
  local from = math.max(now, not_before, math.min(behind, passed(c, old)))
  c.base, c.n = from, c.burst - 1
  note('base', int(c.base))
  note('n', int(c.n))
  return from
end

-- before_last returns how many units the jobs count that stand before the last one, where all want that many or the first
-- one does.
local function before_last(want)
  return want - (want > first_cost and tonumber(string.match(costs, '%d+$') or 1) or first_cost)
end

-- runs_of reads the runs of skipped slots, from a slot on. Those that are numbered from another base mean nothing.
local function runs_of(c, first)
  local runs, base = {}, string.match(c.skipped or '', '^%d+')
  if tonumber(base) ~= c.base then return runs end
  for from, count in string.gmatch(c.skipped or '', '(-?%d+):(%d+)') do
    local some = {from = math.max(tonumber(from), first), to = tonumber(from) + tonumber(count)}
    if some.from < some.to then runs[#runs + 1] = some end
  end
  return runs
end

-- offer returns which slots can be granted now: see pick.lua. want is how many units are wanted. free is how many slots behind
-- all that were granted lie in reach; where too few do, wait is how long until they do.
function algorithm.offer(c, now, want, nearest, ahead)
  local base, n, debt, floor, reach = c.base, c.n, c.burst - 1, now + nearest, now + c.reach
  local idle = base + after(c, n) < floor
  if idle then base, n = floor, 0 end -- begin again, and store no more than the burst
  local function at(m) return math.max(floor, base + after(c, m - debt)) end
  local function first_at(time) return within(c, math.ceil(time) - 1 - base) + 1 + debt end
  local runs, skipped, stop = {}, idle and {} or runs_of(c, first_at(floor)), first_at(reach + 1)
  for _, some in ipairs(skipped) do
    if some.from < stop then runs[#runs + 1] = {from = some.from, to = some.to, before = math.min(some.to, stop)} end
  end
  local free = math.max(0, stop - n - ahead)
  if free > 0 then runs[#runs + 1] = {from = n, to = math.huge, before = n + free} end
  return {
    base = base, n = n, floor = floor, debt = debt, free = free, skipped = skipped, runs = runs, skips = c.burst == 1,
    at = at, first_at = function(time) return time > floor and first_at(time) or -math.huge end,
    wait = math.max(0, at(n + ahead + before_last(want)) - reach),
  }
end

-- advance moves the timeline on, up to slot stop, and notes the runs that were skipped.
local function advance(c, offer, stop, skipped)
  -- Exact, and keeps n - debt from 1 to units; base stays behind the last one granted: change needs it.
  local turned = math.max(0, math.floor((stop - 1 - offer.debt) / c.units))
  local base = offer.base + turned * c.period
  note('base', int(base))
  note('n', int(stop - turned * c.units))
  if stop > offer.n then note('slot', int(offer.at(stop - 1))) end
  local words = {int(base)}
  for i = math.max(1, #skipped - RUNS + 1), #skipped do
    words[#words + 1] = int(skipped[i].from - turned * c.units) .. ':' .. int(skipped[i].to - skipped[i].from)
  end
  local text = #words > 1 and table.concat(words, ' ') or ''
  if text ~= (c.skipped or '') then note('skipped', text) end
end

-- grant grants slots of an offer to jobs, in the order of these: to each as many as it counts, from slot job.first on. It returns
-- how many of the slots lie behind all that were granted before.
function algorithm.grant(c, offer, jobs)
  local left, k, last = {}, 1, jobs[#jobs]
  local stop = math.max(offer.n, last.first + last.units)
  local function keep(from, to)
    if from < to then left[#left + 1] = {from = from, to = to} end
  end
  offer.skipped[#offer.skipped + 1] = {from = offer.n, to = stop}
  for _, some in ipairs(offer.skipped) do
    local from = some.from
    while jobs[k] and jobs[k].first < some.to do
      keep(from, jobs[k].first)
      from, k = jobs[k].first + jobs[k].units, k + 1
    end
    keep(from, some.to)
  end
  advance(c, offer, stop, left)
  return stop - offer.n
end

function algorithm.take(c, now, want, nearest, ahead)
  local offer = algorithm.offer(c, now, want, nearest, ahead)
  local given = fitting(c, math.min(offer.free, want), want)
  if given == 0 then return nil, offer.wait end
  advance(c, offer, offer.n + given, offer.skipped)
  return {
    given = given, base = offer.base, n = offer.n, floor = offer.floor, units = c.units, period = c.period, debt = offer.debt,
  }
end
