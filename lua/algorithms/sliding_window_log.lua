-- with window.lua
-- A log of all units of the last window + guard, by Redis's clock: no more than the cap of them, wherever the window
-- begins. A window that is empty may be filled at once.
--
-- The state is a sorted set: a number of its own for each unit, scored by the time when it was given. In the limit's
-- hash: logged, the last of the numbers, and what window.lua names.
algorithm.name = 'sliding_window_log'
local AT_ONCE = 1000 -- units in one call; a script can't pass more than some thousand arguments

local function log(now, given)
  local number = redis.call('HINCRBY', limit, 'logged', int(given)) - given
  for first = 1, given, AT_ONCE do
    local list = {}
    for i = first, math.min(given, first + AT_ONCE - 1) do
      list[#list + 1] = int(now)
      list[#list + 1] = int(number + i)
    end
    redis.call('ZADD', KEYS[3], unpack(list))
  end
end

function algorithm.take(c, now, want, _, ahead, quiet)
  local wait = early(now, quiet)
  if wait > 0 then return wait, 0 end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', int(now - length(c)))
  local count = redis.call('ZCARD', KEYS[3])
  local given = math.max(0, math.min(want, allowed(c) - count - ahead))
  if given == 0 then -- until as many have left the window as are wanted
    local leave = math.min(allowed(c), want + ahead) + count - allowed(c)
    local entry = leave > 0 and redis.call('ZRANGE', KEYS[3], leave - 1, leave - 1, 'WITHSCORES')
    return entry and tonumber(entry[2]) + length(c) - now or SOON, 0
  end
  log(now, given)
  gave(now, now + length(c))
  return 0, given, now, 0, now, 1, 1, given
end
