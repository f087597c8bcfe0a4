-- Shared by the algorithms that count the units of the last window + guard, and grant units for now. All units granted
-- are used within the lateness, which the guard covers. So a bound on the grants of any window + guard is one on the
-- arrivals of any window.
--
-- In the limit's hash: start, nothing is granted before it; slot, when a unit was granted last; late, the guard in force
-- then; keep, until when the state key must be there: without it, units that still count would be forgotten.
--
-- Units that were granted and not used count no more: back(c, now, list) takes them out of the state, by a list of
-- {slot, units}.
local algorithm = {fields = {'start', 'slot', 'late', 'keep'}, notice = true}
local SOON = 5000 -- when to ask again where others ask first

local function length(c) return c.window + c.guard end

local function allowed(c) return c.cap - c.reserve end

function algorithm.intact(c, now)
  if not (c.start and c.slot and c.late and c.keep) then return false end
  return now >= c.keep or redis.call('EXISTS', KEYS[3]) == 1
end

-- cooldown: a unit counts until it has left the window.
function algorithm.cooldown(c) return length(c) end

function algorithm.begin(c, not_before)
  note('start', int(not_before))
  note('slot', int(not_before))
  note('late', int(c.guard))
  note('keep', 0)
end

-- left is when all units granted have left a window of these terms. A guard that shrinks begins again, so no unit before the
-- last one is later than that one.
function algorithm.left(c) return c.slot + c.window + math.max(c.guard, c.late) end

-- reset forgets the state, and begins when all units granted have left the window. Terms under which nothing was granted
-- count no more: a start that lies ahead is of such terms.
local function reset(c, now, not_before)
  local from = math.max(now, not_before, algorithm.left(c))
  redis.call('DEL', KEYS[3])
  c.start, c.keep = from, 0
  note('start', int(from))
  note('keep', 0)
  return from
end

-- change: another cap counts the units granted before, and so does a shorter window. Of a longer window the state knows
-- too little, and with a smaller guard it would forget units too soon that may still be late.
function algorithm.change(c, old, now, not_before)
  local empty = c.slot < c.start -- nothing was granted since the state was forgotten
  if empty or length(c) > length(old) or c.guard < old.guard then return reset(c, now, not_before) end
end

-- early is how long nothing may be granted yet.
local function early(c, now, not_before) return math.max(not_before, c.start) - now end

-- granted notes that units were granted, and that the state counts until then. It is removed a second later by itself.
local function granted(c, now, keep)
  note('slot', int(now))
  note('late', int(c.guard))
  note('keep', int(keep))
  redis.call('PEXPIRE', KEYS[3], int(math.ceil((keep - now) / 1000) + 1000))
end
