-- with pace.lua
-- A token bucket that is reserved ahead: slots on one exact timeline, each used at its own time. A bucket of burst is
-- refilled at units / period, of the usual pace (cap - reserve - burst + 1) / (window + guard), so that no window + guard holds more
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

-- change begins the new timeline behind the last slot granted, at the shorter of the two spacings: each window then
-- holds no more than the larger of the two caps. A burst that was granted is a debt in time. It is paid first, at the shorter
-- spacing as well, but no longer than base says that it lasts, or than a window takes to pass. So terms that were mistaken can be
-- undone at once. Larger jobs begin max_cost spacings later: the first one goes at once, behind slots that may lie closer to each
-- other than its own.
function algorithm.change(c, old, now, not_before)
  if c.stated == old.stated and c.window == old.window and c.burst == old.burst and c.guard == old.guard
    and c.max_cost == old.max_cost then
    if c.period == old.period then return nil end
    -- Another pace, that the provider's answers made: the bucket stays as full as it is, and the next slot lies where it lay, or now
    -- if that is over. What is stored was stored at the old pace. So it is never fuller than under the contract's pace alone.
    local next_slot = c.base + after(old, c.n - c.burst + 1)
    local stored = math.max(0, math.min(c.burst - 1, within(old, now - next_slot)))
    c.base, c.n = math.max(now, next_slot), c.burst - 1 - stored
    note('base', int(c.base))
    note('n', int(c.n))
    return nil
  end
  local behind = math.min(c.base + after(old, c.n), c.slot + math.min(after(old, old.burst), after(c, old.burst)))
  behind = math.max(c.base, behind) -- no earlier than terms under which nothing was granted
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

-- filled returns the bucket as it is when the next slot lies at floor. One that was idle for long begins again, and stores no more
-- than the burst.
local function filled(c, floor)
  local bucket = {base = c.base, n = c.n, debt = c.burst - 1, floor = floor, idle = c.base + after(c, c.n) < floor}
  if bucket.idle then bucket.base, bucket.n = floor, 0 end
  return bucket
end

-- slot_at is when slot m of a bucket lies.
local function slot_at(c, bucket, m) return math.max(bucket.floor, bucket.base + after(c, m - bucket.debt)) end

-- first_at is the first slot of a bucket that is not before a time.
local function first_at(c, bucket, time) return within(c, math.ceil(time) - 1 - bucket.base) + 1 + bucket.debt end

-- skipped_in returns the runs of skipped slots that can still be granted.
local function skipped_in(c, bucket)
  if bucket.idle or (c.skipped or '') == '' then return {} end
  return runs_of(c, first_at(c, bucket, bucket.floor))
end

-- advance moves the timeline on, up to slot stop, and notes the runs that were skipped.
local function advance(c, bucket, stop, skipped)
  -- Exact, and keeps n - debt from 1 to units; base stays behind the last one granted: change needs it.
  local turned = math.max(0, math.floor((stop - 1 - bucket.debt) / c.units))
  local base = bucket.base + turned * c.period
  note('base', int(base))
  note('n', int(stop - turned * c.units))
  if stop > bucket.n then note('slot', int(slot_at(c, bucket, stop - 1))) end
  local words = {int(base)}
  for i = math.max(1, #skipped - RUNS + 1), #skipped do
    words[#words + 1] = int(skipped[i].from - turned * c.units) .. ':' .. int(skipped[i].to - skipped[i].from)
  end
  local text = #words > 1 and table.concat(words, ' ') or ''
  if text ~= (c.skipped or '') then note('skipped', text) end
end

-- take grants the next slots in reach; where too few lie there, it returns how long until they do.
function algorithm.take(c, now, want, nearest, ahead)
  local bucket, reach = filled(c, now + nearest), now + c.reach
  local free = first_at(c, bucket, reach + 1) - bucket.n - ahead
  local given = free > 0 and fitting(c, math.min(free, want), want) or 0
  if given == 0 then return nil, math.max(0, slot_at(c, bucket, bucket.n + ahead + before_last(want)) - reach) end
  advance(c, bucket, bucket.n + given, skipped_in(c, bucket))
  return {
    given = given, base = bucket.base, n = bucket.n, floor = bucket.floor, units = c.units, period = c.period, debt = bucket.debt,
  }
end

if CHOOSES then -- a call whose jobs are all alike does not make these functions
  -- offer returns which slots can be granted now: see pick.lua. want is how many units are wanted, wait how long until the slots
  -- behind all that were granted suffice for them.
  function algorithm.offer(c, now, want, nearest, ahead)
    local bucket, reach = filled(c, now + nearest), now + c.reach
    local runs, skipped, stop = {}, skipped_in(c, bucket), first_at(c, bucket, reach + 1)
    for _, some in ipairs(skipped) do
      local from = some.from
      if from < stop then runs[#runs + 1] = {from = from, to = some.to, before = math.min(some.to, stop)} end
    end
    local n = bucket.n
    local free = math.max(0, stop - n - ahead)
    if free > 0 then runs[#runs + 1] = {from = n, to = math.huge, before = n + free} end
    return {
      bucket = bucket, skipped = skipped, runs = runs, skips = c.burst == 1,
      at = function(m) return slot_at(c, bucket, m) end,
      first_at = function(time) return time > bucket.floor and first_at(c, bucket, time) or -math.huge end,
      wait = math.max(0, slot_at(c, bucket, n + ahead + before_last(want)) - reach),
    }
  end

  -- grant grants slots of an offer to jobs, in the order of these: to each as many as it counts, from slot job.first on. It
  -- returns how many of the slots lie behind all that were granted before.
  function algorithm.grant(c, offer, jobs)
    local left, k, last, n = {}, 1, jobs[#jobs], offer.bucket.n
    local stop = math.max(n, last.first + last.units)
    local function keep(from, to)
      if from < to then left[#left + 1] = {from = from, to = to} end
    end
    offer.skipped[#offer.skipped + 1] = {from = n, to = stop}
    for _, some in ipairs(offer.skipped) do
      local from = some.from
      while jobs[k] and jobs[k].first < some.to do
        keep(from, jobs[k].first)
        from, k = jobs[k].first + jobs[k].units, k + 1
      end
      keep(from, some.to)
    end
    advance(c, offer.bucket, stop, left)
    return stop - n
  end
end
