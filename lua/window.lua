-- What the algorithms share that count the units of the last window + guard, and say yes or no for now. All that
-- was given is used within the lateness, which the guard covers, so what holds for times of giving within
-- window + guard holds for arrivals within the window.
--
-- In the limit's hash: start_us, nothing is given before it; slot_us, when a unit was given last; keep_us, until
-- when the state key must be there: without it, units that still count would be forgotten.
local algorithm = {}
local SOON = 5000 -- when to ask again where others have their turn first

local function length(c) return c.window + c.guard end

local function allowed(c) return c.cap - c.reserve end

function algorithm.whole(_, now)
  local v = redis.call('HMGET', limit, 'start', 'slot', 'keep')
  if not (v[1] and v[2] and v[3]) then return false end
  return now >= tonumber(v[3]) or redis.call('EXISTS', KEYS[3]) == 1
end

-- binds: a unit counts until it has left the window.
function algorithm.binds(c) return length(c) end

function algorithm.begin(_, quiet)
  redis.call('HSET', limit, 'start', int(quiet), 'slot', int(quiet), 'keep', 0)
end

-- anew forgets the state, and begins when all that was given has left the window, the longer of the two.
local function anew(c, old, now, quiet)
  local from = math.max(now, quiet, tonumber(redis.call('HGET', limit, 'slot')) + math.max(length(c), length(old)))
  redis.call('DEL', KEYS[3])
  redis.call('HSET', limit, 'start', int(from), 'keep', 0)
  return from
end

-- change: another cap counts what was given before, and so does a shorter window. Of a longer one the state knows
-- too little, and with a smaller guard it would forget units too soon that may still be late.
function algorithm.change(c, old, now, quiet)
  if length(c) > length(old) or c.guard < old.guard then return anew(c, old, now, quiet) end
end

-- early is how long nothing may be given yet.
local function early(now, quiet)
  return math.max(quiet, tonumber(redis.call('HGET', limit, 'start'))) - now
end

-- gave notes that units were given, and that the state counts until then. It is removed a second later by itself.
local function gave(now, keep)
  redis.call('HSET', limit, 'slot', int(now), 'keep', int(keep))
  redis.call('PEXPIRE', KEYS[3], int(math.ceil((keep - now) / 1000) + 1000))
end
