-- Book the next slots of a limit on the timeline that all nodes share.
--
-- KEYS[1] limit   dispatcher:{<namespace>}:limit:<name>          hash: the limit's settings and its timeline
-- KEYS[2] booked  dispatcher:{<namespace>}:booked:<name>:<node>  string: what this node was given last
--
-- ARGV[1] want       slots wanted; 0 only looks
-- ARGV[2] seq        number of this booking; the same number again gets the same slots again
-- ARGV[3] epoch      the epoch that the node's mapping of this clock belongs to; 0: it has none
-- ARGV[4] stepped    1: the node saw this clock step within that epoch
-- ARGV[5] identity   info: ask INFO which master this is; none: this server can't tell
-- ARGV[6] lead_us    no slot is nearer than this
-- ARGV[7] by         who made the settings that follow
-- ARGV[8] changed_us the newest settings that the node knows, for a Redis that knows older ones or none; in
--                    ARGV[8..19]: changed_us revision cap window_us burst guard_us lateness_us horizon_us units period_us
--                    paused from_us (where their timeline began: what was owed then is not forgotten with the rest)
--
-- Reply: 1 now_us  2 epoch  3 given  4 base_us  5 n  6 floor_us  7 units  8 period_us  9 debt
--        10 wait_us: until the next slot can be booked
--        11 fence: 0 none, 1 settings lost, 2 settings older than the node's, 3 timeline lost, 4 another master,
--                  5 the clock went back, 6 the node saw it step
--        12 fence_us: no slot lies before this
--        13..24 the settings in force, in the order of ARGV[8..19]  25 by
--        Slot j, from 0, lies at max(floor, base + ceil((n + j - debt) * period / units)).
--
-- Missing key: the node's settings are taken, and no slot is given until all that may be out are over.
local limit, booked = KEYS[1], KEYS[2]
local want, seq, epoch, stepped = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4] == '1'
local identity, lead, by = ARGV[5], tonumber(ARGV[6]), ARGV[7]
local changed = tonumber(ARGV[8])
local names = {'changed', 'revision', 'cap', 'window', 'burst', 'guard', 'lateness', 'horizon', 'units', 'period', 'paused', 'from'}
local LEARNING = 500000 -- after lost settings, the time in which every node has come by with newer ones
local STEP = 2000 -- a clock that goes back by less is held

local function int(x) return string.format('%.0f', x) end -- tostring would round above 1e14

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local master = 'none'
if identity == 'info' then
  local info = redis.pcall('INFO', 'replication')
  master = type(info) == 'string' and string.match(info, 'master_replid:(%w+)')
  if not master then return redis.error_reply('IDENTITY this Redis does not say which master it is') end
end

local set, whole = redis.call('HMGET', limit, unpack(names)), true
for i = 1, 12 do set[i] = tonumber(set[i]); whole = whole and set[i] ~= nil end
local line = redis.call('HMGET', limit, 'base', 'n', 'last', 'master', 'epoch', 'by', 'fence')
local base, n, last, quiet = tonumber(line[1]), tonumber(line[2]), tonumber(line[3]), tonumber(line[7])

local fence = 0
if not whole then fence = 1
elseif changed > set[1] then fence = 2
elseif not (base and n and last and quiet and line[4] and line[5]) then fence = 3
elseif line[4] ~= master then fence = 4
elseif now < last - STEP then fence = 5
elseif stepped and epoch == line[5] then fence = 6 end

if fence == 1 or fence == 2 then
  for i = 1, 12 do set[i] = tonumber(ARGV[7 + i]); redis.call('HSET', limit, names[i], ARGV[7 + i]) end
  redis.call('HSET', limit, 'by', by)
else
  by = line[6] or ''
end
local debt, lateness, horizon, units, period = set[5] - 1, set[7], set[8], set[9], set[10]
local function after(count) return math.ceil(count * period / units) end

local function reply(given, b, first, floor, u, p, d, wait)
  local r = {now, tonumber(epoch), given, b, first, floor, u, p, d, wait, fence, quiet}
  for i = 1, 12 do r[12 + i] = set[i] end
  r[25] = by
  return r
end

if fence > 0 then
  -- All slots that may be out lie within one horizon, are late after the lateness, and want one spacing
  -- behind them. The bucket starts empty.
  quiet = now + horizon + lateness + after(1)
  if fence == 1 then quiet = math.max(quiet, now + LEARNING) end
  quiet = math.max(quiet, math.min(set[12], now + set[4] + set[6]))
  base, n, epoch = quiet, debt, int(now)
  redis.call('HSET', limit, 'base', int(base), 'n', int(n), 'last', int(now), 'slot', int(base), 'fence', int(quiet),
    'master', master, 'epoch', epoch)
  redis.call('DEL', booked)
  return reply(0, base, n, base, units, period, debt, quiet - now - horizon)
end

epoch, now = line[5], math.max(now, last)
local kept = want > 0 and redis.call('GET', booked)
if kept then
  local f = {}
  for word in string.gmatch(kept, '%S+') do f[#f + 1] = word end
  if f[1] == seq and f[2] == epoch then -- that reply was lost: the same slots, beside a fresh reading of the clock
    for i = 3, 9 do f[i] = tonumber(f[i]) end
    return reply(f[3], f[4], f[5], f[6], f[7], f[8], f[9], 0)
  end
end
redis.call('HSET', limit, 'last', int(now))
if set[11] == 1 then return reply(0, base, n, now, units, period, debt, horizon) end

local floor = now + lead
if base + after(n) < floor then base, n = floor, 0 end -- idle: start anew, and store no more than the burst
local room = math.floor((now + horizon - base) * units / period) + 1 - n + debt
local given = math.max(0, math.min(want, room))
local wait = math.max(0, math.max(floor, base + after(n - debt)) - now - horizon)
if given == 0 then return reply(0, base, n, floor, units, period, debt, wait) end

local slot, count = math.max(floor, base + after(n + given - 1 - debt)), n + given
local turns = math.floor(count / units) -- exact, and keeps count * period below 2^53
redis.call('HSET', limit, 'base', int(base + turns * period), 'n', int(count - turns * units), 'slot', int(slot))
redis.call('SET', booked, table.concat({seq, epoch, int(given), int(base), int(n), int(floor), int(units), int(period),
  int(debt)}, ' '), 'PX', int(math.ceil((horizon + lateness) / 1000) + 1000))
return reply(given, base, n, floor, units, period, debt, wait)
