-- with pace.lua
-- A leaky bucket: what is poured in leaves one by one, at units / period = (cap - reserve) / (window + guard). Each
-- unit is told when it leaves, on one exact timeline; those that wait in the bucket lie within its reach, which is its
-- capacity in time. Nothing is stored for later, so there is no burst, and no window + guard holds more than the cap.
--
-- In the limit's hash: base_us and n, from which the next unit leaves n spacings away; slot_us, when the last one
-- given leaves.
local algorithm = {name = 'leaky_bucket', paced = true}

function algorithm.whole()
  local v = redis.call('HMGET', limit, 'base', 'n', 'slot')
  return v[1] and v[2] and v[3]
end

-- binds: a unit wants one spacing behind it.
function algorithm.binds(c) return after(c, 1) end

function algorithm.begin(_, quiet)
  redis.call('HSET', limit, 'base', int(quiet), 'n', 0, 'slot', int(quiet))
end

-- change: the bucket leaks at the new pace behind the last unit given, the first time by the shorter spacing, so that
-- each window holds no more than the larger of the two caps.
function algorithm.change(c, old, now, quiet)
  if c.units == old.units and c.period == old.period then return nil end
  local v = redis.call('HMGET', limit, 'base', 'slot')
  local behind = math.max(tonumber(v[1]), tonumber(v[2]) + math.min(after(old, 1), after(c, 1)))
  behind = behind + math.max(0, old.guard - c.guard) -- the last ones may be as late as the old guard allowed
  local from = math.max(now, quiet, behind)
  redis.call('HSET', limit, 'base', int(from), 'n', 0)
  return from
end

function algorithm.take(c, now, want, lead, ahead)
  local v = redis.call('HMGET', limit, 'base', 'n')
  local base, n, floor = tonumber(v[1]), tonumber(v[2]), now + lead
  if base + after(c, n) < floor then base, n = floor, 0 end -- the bucket has run empty
  local room = within(c, now + c.reach - base) + 1 - n - ahead
  local given = math.max(0, math.min(want, room))
  if given == 0 then return math.max(0, base + after(c, n + ahead + want - 1) - now - c.reach), 0 end
  local count = n + given
  -- Exact, and keeps n from 1 to units; base stays behind the last one given, for change goes by it.
  local turned = math.floor((count - 1) / c.units)
  redis.call('HSET', limit, 'base', int(base + turned * c.period), 'n', int(count - turned * c.units),
    'slot', int(base + after(c, count - 1)))
  return 0, given, base, n, floor, c.units, c.period, 0
end
