-- The arithmetic of GCRA, shared by the algorithm and by CL.THROTTLE. The theoretical arrival time is kept exactly: as
-- whole µs and a rest, in parts of which units make one µs. A unit takes period / units µs.

-- owes is how far the arrival time lies ahead of now, in parts of a µs; below 0 where it lies behind.
local function owes(now, tat, rest, units) return (tat - now) * units + rest end

-- later moves an arrival time on by that many parts.
local function later(tat, rest, units, parts)
  local sum = rest + parts
  local whole = math.floor(sum / units)
  return tat + whole, sum - whole * units
end
