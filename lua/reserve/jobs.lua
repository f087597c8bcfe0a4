-- The jobs that want units: what each counts. It is joined in front of the algorithm. ARGV[15]: see call.lua.
local costs = ARGV[15]
local most_jobs = math.huge -- that may be granted: see calls.lua
local first_cost = tonumber(string.match(costs, '%d+') or 1)

-- Slots may go to any of the jobs where gates refuse some of them, and where units are granted for now and jobs count
-- differently: a small job fills what the first one finds too little. See pick.lua.
local CHOOSES = tonumber(ARGV[20]) > 0 or not AHEAD and costs ~= ''
local choose, smallest

-- fitting returns how many units jobs get where that many are free: no job gets a part of what it counts, or more than
-- max_cost. An algorithm that reserves ahead has all units of a job go at the slot of its first one, so that one must be
-- free. The others grant units for now, and all must be free.
local function fitting(c, free, want)
  if CHOOSES and not AHEAD then return choose(free, want) end
  if costs == '' then return math.max(0, math.min(free, want, most_jobs)) end
  local given, jobs = 0, 0
  for word in string.gmatch(costs, '%d+') do
    local cost = tonumber(word)
    if jobs >= most_jobs or cost > c.max_cost or given + cost > want or given >= free then break end
    given, jobs = given + cost, jobs + 1
  end
  return given
end

-- needed returns how many units must be free for a grant.
local function needed(want) return CHOOSES and not AHEAD and smallest() or want end

-- shared returns how many of the first jobs, most of them at most, that many units are enough for, and what these count.
local function shared(units, most)
  if costs == '' then return math.min(units, most), math.min(units, most) end
  local jobs, given = 0, 0
  for word in string.gmatch(costs, '%d+') do
    if jobs >= most or given + tonumber(word) > units then break end
    jobs, given = jobs + 1, given + tonumber(word)
  end
  return jobs, given
end
