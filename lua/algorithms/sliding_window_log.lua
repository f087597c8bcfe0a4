-- with window.lua
-- A log of the last window + guard, by Redis's clock: no more units than the cap, wherever the window begins. A window
-- that is empty may be filled at once. sliding_window_log and sliding_window_list are both this: to count the units of a
-- window, or to look at the unit granted cap units ago, is the same question.
--
-- The units of one call are one entry, a run. So a call's work does not depend on how many units it grants, or how many
-- the log holds. The state is a list, oldest run first: "time number", when the run was granted and the number of its last unit,
-- counted from the first unit of the list. The numbers say how many units lie between two runs, so nothing is ever counted
-- up. The newest run that has left the window stays in the list, for its number is where the window's count begins.
local DROPPED = 1000 -- runs that one call removes, at most; the rest does no harm
local SOUGHT = 500 -- runs among which a slot is sought that was not used

-- run returns a run; nothing where there is none.
local function run(i)
  local entry = redis.call('LINDEX', KEYS[3], i)
  if not entry then return nil end
  local time, number = string.match(entry, '(%d+) (%d+)')
  return {time = tonumber(time), number = tonumber(number)}
end

-- newest returns which run is the newest whose time, or number, is at most that, and its number; -1 and 0 where none
-- is. It looks at the oldest runs first, then ever further apart: near the end of a list LINDEX is quick.
local function newest(field, most)
  local low, high, number = -1, 0, 0
  local function fits(i)
    local r = run(i)
    if r and r[field] <= most then
      low, number = i, r.number
      return true
    end
    high = i
  end
  while fits(high) do high = 2 * high + 1 end
  while high - low > 1 do fits(math.floor((low + high) / 2)) end
  return low, number
end

-- leaves returns when the unit of that number leaves the window.
local function leaves(number, long) return run(newest('number', number - 1) + 1).time + long end

-- add writes a run down, and forgets all before the oldest one that still counts.
local function add(now, number, oldest)
  redis.call('RPUSH', KEYS[3], int(now) .. ' ' .. int(number))
  if oldest > 0 then redis.call('LTRIM', KEYS[3], int(math.min(oldest, DROPPED)), -1) end
end

-- back takes units that were not used out of their runs, and out of the numbers behind them. It reaches the newest runs only.
function algorithm.back(c, now, list)
  local by, oldest, runs = {}, math.huge, {} -- runs: the newest ones, newest first
  local edge = run(-1 - SOUGHT)
  for _, one in ipairs(list) do
    if not edge or one.slot > edge.time then
      by[one.slot] = (by[one.slot] or 0) + one.units
      oldest = math.min(oldest, one.slot)
    end
  end
  local this = run(-1)
  while this and this.time >= oldest and #runs < SOUGHT do
    runs[#runs + 1] = this
    this = run(-1 - #runs)
  end
  if #runs == 0 then return end
  local before, moved, entries = this and this.number or 0, 0, {}
  for k = #runs, 1, -1 do
    local time, number = runs[k].time, runs[k].number
    local counts = this or k < #runs or time > now - length(c, now) -- else runs in front of the first one were forgotten
    if counts and by[time] then
      local units = math.min(by[time], number - before)
      moved, by[time] = moved + units, by[time] - units
    end
    before = number
    entries[#entries + 1] = int(time) .. ' ' .. int(number - moved)
  end
  if moved == 0 then return end
  if this then redis.call('LTRIM', KEYS[3], 0, -1 - #runs) else redis.call('DEL', KEYS[3]) end
  redis.call('RPUSH', KEYS[3], unpack(entries))
  redis.call('PEXPIRE', KEYS[3], int(math.ceil((c.keep - now) / 1000) + 1000))
end

function algorithm.take(c, now, want, _, ahead, not_before)
  local wait, long = early(c, now, not_before), length(c, now)
  if wait > 0 then return nil, wait end
  local gone, left = newest('time', now - long)
  local last = run(-1)
  local number = last and last.number or 0
  local count = number - left
  local given = fitting(c, allowed(c) - count - ahead, want)
  if given == 0 then -- until as many have left the window as are wanted
    local leave = math.min(allowed(c), needed(want) + ahead) + count - allowed(c)
    return nil, leave > 0 and leaves(left + leave, long) - now or SOON
  end
  add(now, number + given, gone)
  granted(now, now + long)
  return {given = given}
end
