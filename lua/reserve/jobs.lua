-- The jobs that want units: what each counts. It is joined in front of the algorithm. ARGV[15]: see call.lua.
local costs = ARGV[15]
local first_cost = tonumber(string.match(costs, '%d+') or 1)

-- fitting returns how many units the first jobs get where that many are free: no job gets a part of what it counts, or more
-- than max_cost. An algorithm that reserves ahead has all units of a job go at the slot of its first one, so that one must be
-- free. The others grant units for now, and all must be free.
local function fitting(c, free, want)
  if costs == '' then return math.max(0, math.min(free, want)) end
  local given = 0
  for word in string.gmatch(costs, '%d+') do
    local cost = tonumber(word)
    if cost > c.max_cost or given + cost > want or given + (AHEAD and 1 or cost) > free then break end
    given = given + cost
  end
  return given
end
