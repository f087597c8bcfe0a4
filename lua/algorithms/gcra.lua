-- with pace.lua
-- GCRA, as redis-cell counts, but exact: units follow each other by T = window / (cap - reserve) on average, and a
-- limit that was idle grants a burst at once, which is not paid for. So a window of the provider's may hold
-- burst - 1 + ceil((window + guard) / T).
--
-- In the limit's hash: base and n, from which the theoretical arrival time lies n * T away.
local algorithm = {fields = {'base', 'n'}, notice = true}
local SOON = 5000 -- when to ask again where others ask first
local MOST = 2 ^ 21 -- see Contract.Pace

-- pace returns T as a fraction: units in period µs. It is exact up to a cap of MOST, and above that it is rounded to the
-- slower side: floor(units / d) / ceil(period / d) is at most units / period.
local function pace(c)
  local units, period = c.cap - c.reserve, c.window
  local d = math.ceil(math.min(units, period) / MOST)
  return {units = math.floor(units / d), period = math.ceil(period / d)}
end

local function spacing(c) return c.window / (c.cap - c.reserve) end

function algorithm.intact(c) return c.base and c.n end

-- cooldown: the arrival time of the units granted lies no further ahead than a burst, and the bucket begins empty.
function algorithm.cooldown(c) return after(pace(c), 1) end

function algorithm.begin(c, not_before)
  note('base', int(not_before))
  note('n', int(c.burst - 1))
end

-- change keeps the debt, in units: all units granted are then within what the faster of the two would have granted too.
-- A larger burst begins as empty as it is larger.
function algorithm.change(c, old, now, not_before)
  old.reserve = c.reserve
  if spacing(c) == spacing(old) and c.burst == old.burst then return nil end
  local owed = math.max(0, c.base + after(pace(old), c.n) - now)
  if owed > 0 then owed = math.ceil(owed / spacing(old) * spacing(c)) + 1 end -- 1 for the rounding of the fractions
  c.base, c.n = now + owed, math.max(0, c.burst - old.burst)
  note('base', int(c.base))
  note('n', int(c.n))
  return math.max(now, not_before)
end

function algorithm.take(c, now, want, _, ahead, not_before)
  if now < not_before then return nil, not_before - now end
  local p, base, n = pace(c), c.base, c.n
  if base + after(p, n) < now then base, n = now, 0 end -- idle: nothing is owed
  local given = fitting(c, within(p, now - base) + c.burst - n - ahead, want)
  if given == 0 then
    local over = base + after(p, n + math.min(c.burst, needed(want) + ahead) - c.burst) - now
    return nil, over > 0 and over or SOON
  end
  local turned = math.floor((n + given - 1) / p.units) -- exact, and keeps n from 1 to units
  note('base', int(base + turned * p.period))
  note('n', int(n + given - turned * p.units))
  return {given = given}
end
