-- The arithmetic of a pace: c.units units in c.period µs, whole numbers of any size that a contract allows. A script's
-- numbers are whole up to 2^53, and count * period may be far above that: 10^6 units * 31 days is 2.7 * 10^18. So the
-- spacing period / units is split into whole µs and a rest below units, and only count * rest is ever divided:
--
--   count * period / units = count * whole + count * rest / units        rest < units, rest <= period
--
-- Both parts are exact: rest is at most 2^21 (see Contract.Pace), a count is below 2^32, and a quotient of whole numbers
-- below 2^53 is never rounded across a whole number. So no unit comes earlier than the pace says, nor a µs later. Under the slower
-- pace of a slowdown rest may be larger: there a unit of a cap above 10^8 may be a µs off.
local FAR = 2 ^ 52 -- µs, 142 years: a time further away is as good as never, and times plus this stay below 2^53

-- after returns the time in which count units pass, in whole µs, rounded up.
local function after(c, count)
  local whole = math.floor(c.period / c.units)
  local us = count * whole + math.ceil(count * (c.period - whole * c.units) / c.units)
  return math.max(-FAR, math.min(FAR, us))
end

-- within returns how many units pass in us. The product may be too large to be exact, but then the quotient is still
-- less than one unit off, and after tells in which direction.
local function within(c, us)
  local count = math.floor(us * c.units / c.period)
  if after(c, count) > us then return count - 1 end
  if after(c, count + 1) <= us then return count + 1 end
  return count
end

-- passed returns when all units granted have left every window: the last unit under the widest terms since it was granted.
-- Each change takes its own terms in, so that several in a row forget none of them. It bounds how long a change waits.
local function passed(c, old)
  c.passed = math.max(c.passed or 0, c.slot + math.max(c.window, old.window) + math.max(c.guard, old.guard))
  note('passed', int(c.passed))
  return c.passed
end
