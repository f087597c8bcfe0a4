-- Change a limit's settings: the only writer of them but for book.lua's restore.
--
-- KEYS[1] limit  dispatcher:{<namespace>}:limit:<name>  hash: the limit's settings and its timeline
--
-- ARGV[1] expected  the changed_us that the caller has read; others may have been faster
-- ARGV[2] by        who changes
-- The new settings, whole:
-- ARGV[3] cap  ARGV[4] window_us  ARGV[5] burst  ARGV[6] guard_us  ARGV[7] lateness_us
-- ARGV[8] horizon_us  ARGV[9] units  ARGV[10] period_us  ARGV[11] paused
--
-- Reply: 1 status: 0 changed, 1 no such limit, 2 somebody was faster
--        2 changed_us  3 revision  4 from_us: where the new timeline begins
--
-- Missing key: status 1, nothing is written.
local limit = KEYS[1]
local expected, by = tonumber(ARGV[1]), ARGV[2]
local names = {'cap', 'window', 'burst', 'guard', 'lateness', 'horizon', 'units', 'period', 'paused'}

local function int(x) return string.format('%.0f', x) end

local v = redis.call('HMGET', limit, 'changed', 'revision', 'cap', 'window', 'burst', 'guard', 'units', 'period', 'base', 'n',
  'slot', 'fence')
for i = 1, 12 do
  v[i] = tonumber(v[i])
  if not v[i] then return {1, 0, 0, 0} end
end
local changed, revision, cap, window, burst, guard, units, period, base, n, slot, fence = unpack(v, 1, 12)
if changed ~= expected then return {2, changed, revision, 0} end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local from = base
if cap ~= tonumber(ARGV[3]) or window ~= tonumber(ARGV[4]) or burst ~= tonumber(ARGV[5]) or guard ~= tonumber(ARGV[6]) then
  -- The new timeline begins behind the last slot given, at the shorter of the two spacings: each window then
  -- holds no more than the larger of the two caps. A burst that was given is a debt in time, which base still
  -- holds after a change; it is paid first, but no longer than a window takes to pass.
  local behind = base + math.ceil(n * period / units)
  if burst == 1 then
    behind = math.max(base, slot + math.min(math.ceil(period / units), math.ceil(tonumber(ARGV[10]) / tonumber(ARGV[9]))))
  end
  behind = math.min(behind, slot + math.max(window, tonumber(ARGV[4])) + math.max(guard, tonumber(ARGV[6])))
  from = math.max(now, fence, behind)
  redis.call('HSET', limit, 'base', int(from), 'n', int(tonumber(ARGV[5]) - 1))
end
changed = math.max(now, changed + 1)
for i = 1, 9 do redis.call('HSET', limit, names[i], ARGV[2 + i]) end
redis.call('HSET', limit, 'changed', int(changed), 'revision', int(revision + 1), 'by', by, 'from', int(from))
return {0, changed, revision + 1, from}
