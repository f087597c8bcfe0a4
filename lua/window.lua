-- Shared by the algorithms that count the units of the last window + guard, and grant units for now. All units granted
-- are used within the lateness, which the guard covers. So a bound on the grants of any window + guard is one on the
-- arrivals of any window.
--
-- In the limit's hash: slot, when a unit was granted last; known, all units that the state may have forgotten had arrived by then;
-- late, the widest guard of units from before the last change, and till, until when one of these may count for that; keep, until
-- when the state key must be there: without it, units that still count would be forgotten.
--
-- Units that were granted and not used count no more: back(c, now, list) takes them out of the state, by a list of
-- {slot, units}.
local algorithm = {fields = {'slot', 'known', 'late', 'till', 'keep'}, notice = true}
local SOON = 5000 -- when to ask again where others ask first

-- length is how long a unit counts. After a change to a smaller guard it is the wider one for a window: units of before may be late.
local function length(c, now) return c.window + (now < c.till and c.late or c.guard) end

local function allowed(c) return c.cap - c.reserve end

function algorithm.intact(c, now)
  if not (c.slot and c.known and c.late and c.till and c.keep) then return false end
  return now >= c.keep or redis.call('EXISTS', KEYS[3]) == 1
end

-- cooldown: a unit counts until it has left the window.
function algorithm.cooldown(c) return c.window + c.guard end

function algorithm.begin(c, not_before)
  note('slot', int(not_before - algorithm.cooldown(c)))
  note('known', int(not_before - c.window))
  note('late', 0)
  note('till', 0)
  note('keep', 0)
end

-- change: another cap counts the units granted before. In a longer window those count again that had left the shorter one, and
-- were forgotten: nothing is granted until they have left the longer one too. For a longer guard nothing is waited for: units of
-- before are no later than theirs. A longer window that was mistaken can be undone at once. Units are granted ahead of now, so
-- what was forgotten may have left the window at the last one of them.
function algorithm.change(c, old, now, not_before)
  if c.window == old.window and c.guard == old.guard then return nil end
  local guard = now < c.till and c.late or old.guard
  c.known = math.max(c.known, math.min(c.slot + math.max(c.late, old.guard), math.max(now, c.slot) - old.window))
  -- In a shorter window units are granted that the one before had no room for, so none goes until all of before have arrived.
  if c.window < old.window then c.known = math.max(c.known, c.slot + guard + 1 - c.window) end
  c.late, c.till = guard, guard > c.guard and c.slot + c.window + guard or 0
  note('known', int(c.known))
  note('late', int(c.late))
  note('till', int(c.till))
  local keep = math.max(c.keep, c.slot + 2 * length(c, now)) -- a unit counts for two lengths at most
  if c.window > old.window and redis.call('PEXPIRE', KEYS[3], int(math.max(0, math.ceil((keep - now) / 1000)) + 1000)) == 1 then
    c.keep = keep
    note('keep', int(keep))
  end
  return math.max(now, not_before, c.known + c.window)
end

-- early is how long nothing may be granted yet.
local function early(c, now, not_before) return math.max(not_before, c.known + c.window) - now end

-- granted notes that units were granted, and that the state counts until then. It is removed a second later by itself.
local function granted(now, keep)
  note('slot', int(now))
  note('keep', int(keep))
  redis.call('PEXPIRE', KEYS[3], int(math.ceil((keep - now) / 1000) + 1000))
end
