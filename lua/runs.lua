-- with window.lua
-- A log of runs: the units that were given in one call stand in it as one entry. So a call's work does not depend on how
-- many units it gives, or how many there are.
--
-- The state is a list, oldest run first: "time number", when the run was given and the number of its last unit, counted
-- from the first unit of the list. The numbers say how many units lie between two runs, so nothing is ever counted up.
-- The newest run that has left the window stays in the list, for its number is where the window's count begins.
local DROPPED = 1000 -- runs that one call removes, at most; the rest is in nobody's way

-- run returns the time and the number of a run; nothing where there is none.
local function run(i)
  local entry = redis.call('LINDEX', KEYS[3], i)
  if not entry then return nil end
  local time, number = string.match(entry, '(%d+) (%d+)')
  return {tonumber(time), tonumber(number)}
end
local TIME, NUMBER = 1, 2

-- newest returns which run is the newest whose time, or number, is at most that, and its number; -1 and 0 where none
-- is. It looks at the oldest runs first, then ever further apart: near the end of a list LINDEX is quick.
local function newest(field, most)
  local low, high, number = -1, 0, 0
  local function fits(i)
    local r = run(i)
    if r and r[field] <= most then
      low, number = i, r[NUMBER]
      return true
    end
    high = i
  end
  while fits(high) do high = 2 * high + 1 end
  while high - low > 1 do fits(math.floor((low + high) / 2)) end
  return low, number
end

-- leaves returns when the unit of that number leaves the window.
local function leaves(c, number) return run(newest(NUMBER, number - 1) + 1)[TIME] + length(c) end

-- add writes a run down, and forgets runs of before the first that is needed.
local function add(now, number, needed)
  redis.call('RPUSH', KEYS[3], int(now) .. ' ' .. int(number))
  if needed > 0 then redis.call('LTRIM', KEYS[3], int(math.min(needed, DROPPED)), -1) end
end
