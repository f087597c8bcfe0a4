-- CL.THROTTLE of redis-cell, for a Redis that has no such module: the same five numbers, and the same value in the
-- key. One thing differs: a refused caller never gets a wait of 0 s.
--
-- KEYS[1] key  string: the theoretical arrival time in ns
--
-- ARGV[1] max_burst  units at once beside the first
-- ARGV[2] count      units in a period, at least 1
-- ARGV[3] period_s   at least 1
-- ARGV[4] quantity   units asked for; 0 only looks, less gives back
--
-- Reply: 1 limited: 1 or 0  2 limit  3 remaining  4 retry_after_s: -1 unless limited, and where it would never do
--        5 reset_after_s: until all is there again
--
-- Missing key: nothing was given for long enough.
local NS = 1000 -- parts of a µs: T is whole ns here, and a time is kept exactly, as whole µs and a rest in those parts
local SECOND = 1000000 * NS
local burst, quantity = tonumber(ARGV[1]), tonumber(ARGV[4])
local spacing = math.floor(tonumber(ARGV[3]) * SECOND / tonumber(ARGV[2]))
local tolerance, increment = spacing * (burst + 1), spacing * quantity
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function truncated(x) return x < 0 and math.ceil(x) or math.floor(x) end

-- seconds rounds up where there is a whole ms to round.
local function seconds(ns)
  local whole = truncated(ns / SECOND)
  return ns - whole * SECOND >= 1000 * NS and whole + 1 or whole
end

local function reply(limited, retry, ttl)
  local left = tolerance - ttl
  local remaining = left > -spacing and spacing > 0 and truncated(left / spacing) or 0
  return {limited, burst + 1, remaining, retry, seconds(ttl)}
end

local kept, owed = redis.call('GET', KEYS[1]), 0
if kept then owed = (tonumber(string.sub(kept, 1, -4)) - now) * NS + tonumber(string.sub(kept, -3)) end
local after = math.max(0, owed) + increment
if after > tolerance then
  local retry = -1
  if increment <= tolerance then retry = math.max(1, seconds(after - tolerance)) end
  return reply(1, retry, owed)
end
if after > 0 then
  local whole = math.floor(after / NS)
  redis.call('SET', KEYS[1], string.format('%.0f%03d', now + whole, after - whole * NS),
    'PX', string.format('%.0f', math.ceil(after / 1000 / NS)))
elseif kept then
  redis.call('DEL', KEYS[1])
end
return reply(0, -1, after)
