-- with pace.lua
-- A leaky bucket: what is poured in leaves one by one, at units / period = (cap - reserve) / (window + guard). Each
-- unit is told when it leaves, on one exact timeline; those that wait in the bucket lie within its reach, which is its
-- capacity in time. Nothing is stored for later, so there is no burst, and no window + guard holds more than the cap.
--
-- In the limit's hash: base_us and n, from which the next unit leaves n spacings away; slot_us, when the last one
-- given leaves; passed_us, see pace.lua.
local algorithm = {name = 'leaky_bucket', paced = true}

function algorithm.whole(c) return c.base and c.n and c.slot end

-- binds: a unit wants one spacing behind it.
function algorithm.binds(c) return after(c, 1) end

function algorithm.begin(_, quiet)
  note('base', int(quiet))
  note('n', 0)
  note('slot', int(quiet))
  note('passed', 0)
end

-- change: the bucket leaks at the new pace behind the last unit given, the first time by the shorter spacing, so that
-- each window holds no more than the larger of the two caps.
function algorithm.change(c, old, now, quiet)
  if c.units == old.units and c.period == old.period then return nil end
  local behind = math.max(c.base, c.slot + math.min(after(old, 1), after(c, 1)))
  behind = behind + math.max(0, old.guard - c.guard) -- the last ones may be as late as the old guard allowed
  local from = math.max(now, quiet, math.min(behind, passed(c, old)))
  c.base, c.n = from, 0
  note('base', int(from))
  note('n', 0)
  return from
end

function algorithm.take(c, now, want, lead, ahead)
  local base, n, floor = c.base, c.n, now + lead
  if base + after(c, n) < floor then base, n = floor, 0 end -- the bucket has run empty
  local room = within(c, now + c.reach - base) + 1 - n - ahead
  local given = math.max(0, math.min(want, room))
  if given == 0 then return math.max(0, base + after(c, n + ahead + want - 1) - now - c.reach), 0 end
  local count = n + given
  -- Exact, and keeps n from 1 to units; base stays behind the last one given, for change goes by it.
  local turned = math.floor((count - 1) / c.units)
  note('base', int(base + turned * c.period))
  note('n', int(count - turned * c.units))
  note('slot', int(base + after(c, count - 1)))
  return 0, given, base, n, floor, c.units, c.period, 0
end
