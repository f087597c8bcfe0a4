-- with window.lua
-- Two counts stand for a sliding window: buckets of window + guard, of which the one before
-- counts by the part of it that the sliding window still covers, as if its units were spread evenly.
--
-- They may not be. With p units at the end of a bucket, the next one may hold cap - p * (what is left of it), which
-- is below cap until it ends. A window that begins just before those p holds them all and cap - 1 more: with
-- p = cap that is 2 * cap - 1, and it can't be more, for a window reaches into two buckets only.
--
-- The state is a hash: start of the bucket, count in it; from, start of the one before it, before, count in that; last, when a
-- unit was granted last.

-- buckets returns when the bucket of now begins, its count, and when the one before it began, and its count. One begins where the
-- one before ends or, where the terms made that shorter, behind its last unit. Where there is none before, it is aligned to the clock.
local function buckets(now, long)
  local v = redis.call('HMGET', KEYS[3], 'start', 'count', 'from', 'before', 'last')
  local start, count = tonumber(v[1]), tonumber(v[2])
  if start and now < start + long then return start, count, tonumber(v[3]), tonumber(v[4]) end
  local next_start = start and math.max(start + long, tonumber(v[5]) + 1)
  if start and now < next_start + long then return next_start, 0, start, count end
  start = math.floor(now / long) * long
  return start, 0, start - long, 0
end

-- graded returns the length in grains, and the grain in µs. It is 1 but where before * length is too large to be exact:
-- 10^6 units in 31 days are counted in grains of 600 µs.
local function graded(long, before)
  local grain = math.max(1, math.ceil(before * long / 2 ^ 52))
  return math.floor(long / grain), grain
end

-- covered is how many of the units before still count when their bucket is covered for that many µs more. It is rounded
-- up, and with it the grains: never in favour of who asks.
local function covered(long, before, us)
  local grains, grain = graded(long, before)
  return math.min(before, math.ceil(before * math.ceil(us / grain) / grains))
end

-- free_at is when a bucket that begins at start allows that many units beside its count: when no more than free of the
-- units before are covered.
local function free_at(c, long, start, units, count, before)
  local free = allowed(c) - count - units
  if free < 0 then return math.huge end
  if before <= free then return start end
  local grains, grain = graded(long, before)
  return start + long - math.floor(free * grains / before) * grain
end

function algorithm.back(_, _, list)
  local v = redis.call('HMGET', KEYS[3], 'start', 'count', 'from', 'before')
  if not v[1] then return end
  local start, count, from, before = tonumber(v[1]), tonumber(v[2]), tonumber(v[3]), tonumber(v[4])
  for _, one in ipairs(list) do
    if one.slot >= start and count >= one.units then count = count - one.units
    elseif one.slot < start and one.slot >= from and before >= one.units then before = before - one.units end
  end
  redis.call('HSET', KEYS[3], 'count', int(count), 'before', int(before))
end

function algorithm.take(c, now, want, _, ahead, not_before)
  local wait, long = early(c, now, not_before), length(c, now)
  if wait > 0 then return nil, wait end
  local start, count, from, before = buckets(now, long)
  local given = fitting(c, allowed(c) - covered(long, before, start + long - now) - count - ahead, want)
  if given == 0 then
    local units = math.min(allowed(c), needed(want) + ahead)
    local at = math.min(free_at(c, long, start, units, count, before), free_at(c, long, start + long, units, 0, count))
    return nil, at > now and at - now or SOON
  end
  redis.call('HSET', KEYS[3], 'start', int(start), 'count', int(count + given), 'from', int(from), 'before', int(before), 'last', int(now))
  granted(now, start + 2 * long)
  return {given = given}
end
