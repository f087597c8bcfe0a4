-- with gcra_math.lua
-- GCRA, as redis-cell counts, but exact: units follow each other by T = window / (cap - reserve) on average, and a
-- limit that was idle gives a burst at once, which is not paid for. A window of the provider's may so hold
-- burst - 1 + ceil((window + guard) / T).
--
-- In the limit's hash: tat_us and rest, the theoretical arrival time, see gcra_math.lua.
local algorithm = {name = 'gcra'}
local SOON = 5000 -- when to ask again where others have their turn first

-- pace returns T as a reduced fraction: units in period µs.
local function pace(c)
  local units, period = c.cap - c.reserve, c.window
  local a, b = units, period
  while b > 0 do a, b = b, a % b end
  return units / a, period / a
end

local function spacing(c) return c.window / (c.cap - c.reserve) end

function algorithm.whole()
  local v = redis.call('HMGET', limit, 'tat', 'rest')
  return v[1] and v[2]
end

-- binds: the arrival time of what was given lies no further ahead than a burst, and the bucket begins empty.
function algorithm.binds(c) return math.ceil(spacing(c)) end

function algorithm.begin(c, quiet)
  redis.call('HSET', limit, 'tat', int(quiet + math.ceil((c.burst - 1) * spacing(c))), 'rest', 0)
end

-- change keeps what is owed, in units: all that was given is then what the faster of the two would have given too. A
-- larger burst begins as empty as it is larger.
function algorithm.change(c, old, now, quiet)
  old.reserve = c.reserve
  if spacing(c) == spacing(old) and c.burst == old.burst then return nil end
  local owed = math.max(0, tonumber(redis.call('HGET', limit, 'tat')) + 1 - now)
  owed = (owed / spacing(old) + math.max(0, c.burst - old.burst)) * spacing(c)
  redis.call('HSET', limit, 'tat', int(now + math.ceil(owed)), 'rest', 0)
  return math.max(now, quiet)
end

function algorithm.take(c, now, want, _, ahead, quiet)
  if now < quiet then return quiet - now, 0 end
  local v = redis.call('HMGET', limit, 'tat', 'rest')
  local units, period = pace(c)
  local owed = math.max(0, owes(now, tonumber(v[1]), tonumber(v[2]), units))
  local given = math.max(0, math.min(want, math.floor((c.burst * period - owed) / period) - ahead))
  if given == 0 then
    local over = owed - (c.burst - math.min(c.burst, want + ahead)) * period
    return over > 0 and math.ceil(over / units) or SOON, 0
  end
  local tat, rest = later(now, 0, units, owed + given * period)
  redis.call('HSET', limit, 'tat', int(tat), 'rest', int(rest))
  return 0, given, now, 0, now, 1, 1, given
end
