-- with window.lua
-- Two counts stand for a sliding window: buckets of window + guard, aligned to the clock, of which the one before
-- counts by the part of it that the sliding window still covers, as if its units were spread evenly.
--
-- They may not be. With p units at the end of a bucket, the next one may hold cap - p * (what is left of it), which
-- is below cap until it ends. A window that begins just before those p holds them all and cap - 1 more: with
-- p = cap that is 2 * cap - 1, and it can't be more, for a window reaches into two buckets only.
--
-- The state is a hash: index of the bucket, count in it, before: count in the one before it.

local function counts(index)
  local v = redis.call('HMGET', KEYS[3], 'index', 'count', 'before')
  local at = tonumber(v[1] or 0)
  if at == index then return tonumber(v[2]), tonumber(v[3]) end
  return 0, at == index - 1 and tonumber(v[2]) or 0
end

-- graded returns the length in grains, and the grain in µs. It is 1 but where before * length is too large to be exact:
-- 10^6 units in 31 days are counted in grains of 600 µs.
local function graded(c, before)
  local grain = math.max(1, math.ceil(before * length(c) / 2 ^ 52))
  return math.floor(length(c) / grain), grain
end

-- covered is how many of the units before still count when their bucket is covered for that many µs more. It is rounded
-- up, and with it the grains: never in favour of who asks.
local function covered(c, before, us)
  local grains, grain = graded(c, before)
  return math.min(before, math.ceil(before * math.ceil(us / grain) / grains))
end

-- free_at is when a bucket that begins at start allows that many units beside its count: when no more than free of the
-- units before are covered.
local function free_at(c, start, units, count, before)
  local free = allowed(c) - count - units
  if free < 0 then return math.huge end
  if before <= free then return start end
  local grains, grain = graded(c, before)
  return start + length(c) - math.floor(free * grains / before) * grain
end

-- change: buckets of another length know nothing of each other.
do
  local same_length = algorithm.change
  function algorithm.change(c, old, now, not_before)
    if length(c) ~= length(old) then return reset(c, now, not_before) end
    return same_length(c, old, now, not_before)
  end
end

function algorithm.back(c, _, list)
  for _, one in ipairs(list) do
    local v = redis.call('HMGET', KEYS[3], 'index', 'count', 'before')
    local field, count = 'count', tonumber(v[2] or 0)
    local behind = tonumber(v[1] or 0) - math.floor(one.slot / length(c))
    if behind == 1 then field, count = 'before', tonumber(v[3]) end
    if (behind == 0 or behind == 1) and count >= one.units then redis.call('HSET', KEYS[3], field, int(count - one.units)) end
  end
end

function algorithm.take(c, now, want, _, ahead, not_before)
  local wait = early(c, now, not_before)
  if wait > 0 then return nil, wait end
  local long = length(c)
  local index = math.floor(now / long)
  local start = index * long
  local count, before = counts(index)
  local given = fitting(c, allowed(c) - covered(c, before, start + long - now) - count - ahead, want)
  if given == 0 then
    local units = math.min(allowed(c), needed(want) + ahead)
    local at = math.min(free_at(c, start, units, count, before), free_at(c, start + long, units, 0, count))
    return nil, at > now and at - now or SOON
  end
  redis.call('HSET', KEYS[3], 'index', int(index), 'count', int(count + given), 'before', int(before))
  granted(c, now, start + 2 * long)
  return {given = given}
end
