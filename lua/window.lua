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

function algorithm.whole(c, now)
  if not (c.start and c.slot and c.keep) then return false end
  return now >= c.keep or redis.call('EXISTS', KEYS[3]) == 1
end

-- binds: a unit counts until it has left the window.
function algorithm.binds(c) return length(c) end

function algorithm.begin(_, quiet)
  note('start', int(quiet))
  note('slot', int(quiet))
  note('keep', 0)
end

-- anew forgets the state, and begins when all that was given has left the window, the longer of the two. A start that
-- lies ahead stays: nothing was given since the change that set it, so the last unit was given under terms before old.
local function anew(c, old, now, quiet)
  local from = math.max(now, quiet, c.start, c.slot + math.max(length(c), length(old)))
  redis.call('DEL', KEYS[3])
  c.start, c.keep = from, 0
  note('start', int(from))
  note('keep', 0)
  return from
end

-- change: another cap counts what was given before, and so does a shorter window. Of a longer one the state knows
-- too little, and with a smaller guard it would forget units too soon that may still be late.
function algorithm.change(c, old, now, quiet)
  if length(c) > length(old) or c.guard < old.guard then return anew(c, old, now, quiet) end
end

-- early is how long nothing may be given yet.
local function early(c, now, quiet) return math.max(quiet, c.start) - now end

-- gave notes that units were given, and that the state counts until then. It is removed a second later by itself.
local function gave(now, keep)
  note('slot', int(now))
  note('keep', int(keep))
  redis.call('PEXPIRE', KEYS[3], int(math.ceil((keep - now) / 1000) + 1000))
end
