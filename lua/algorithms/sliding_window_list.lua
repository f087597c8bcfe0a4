-- with window.lua
-- A unit is given when the cap-th before it was given at least window + guard ago: then no window holds more than
-- the cap, at the full rate and with bursts of up to the cap. Nothing is counted, and only times are looked at.
--
-- The state is a list: when the last cap units were given, newest first.
algorithm.name = 'sliding_window_list'
local AT_ONCE = 1000 -- units in one call; a script can't pass more than some thousand arguments

local function push(now, given)
  for first = 1, given, AT_ONCE do
    local list = {}
    for i = 1, math.min(AT_ONCE, given - first + 1) do list[i] = int(now) end
    redis.call('LPUSH', KEYS[3], unpack(list))
  end
end

-- free is how many of the units wanted may be given: those whose cap-th before them is none, or is long ago.
local function free(c, now, want, ahead)
  local last = allowed(c) - ahead
  local first = math.max(0, last - want)
  if last <= 0 then return 0 end
  local times = redis.call('LRANGE', KEYS[3], first, last - 1)
  local old = #times
  while old > 0 and tonumber(times[old]) <= now - length(c) do old = old - 1 end
  return last - first - old
end

function algorithm.take(c, now, want, _, ahead, quiet)
  local wait = early(now, quiet)
  if wait > 0 then return wait, 0 end
  local given = free(c, now, want, ahead)
  if given == 0 then
    local time = redis.call('LINDEX', KEYS[3], math.max(0, allowed(c) - want - ahead))
    return time and math.max(SOON, tonumber(time) + length(c) - now) or SOON, 0
  end
  push(now, given)
  redis.call('LTRIM', KEYS[3], 0, allowed(c) - 1)
  gave(now, now + length(c))
  return 0, given, now, 0, now, 1, 1, given
end
