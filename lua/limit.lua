-- What the scripts of a limit share: its clock, its settings, and the trail of their changes. It is joined in
-- front of the others.
--
-- KEYS[1] limit    dispatcher:{<namespace>}:limit:<name>    hash: the settings, and what each algorithm needs
-- KEYS[2] history  dispatcher:{<namespace>}:history:<name>  stream: the last changes of the settings
--
-- The settings are numbers (times in µs), then words. units / period is the pace that follows from the contract;
-- from is where the timeline of these settings began; was is what an override returns to at until.
local limit, history = KEYS[1], KEYS[2]
local NUMBERS = {'changed', 'revision', 'cap', 'window', 'burst', 'guard', 'lateness', 'horizon', 'units', 'period', 'paused',
  'until', 'max_cap', 'max_step', 'reserve', 'max_nodes', 'from'}
local WORDS = {'was', 'by', 'why'}
local SETTINGS = #NUMBERS + #WORDS
local TERMS = {'cap', 'window', 'burst', 'guard', 'lateness', 'horizon', 'units', 'period', 'paused'} -- what operators change
local KEPT = 1000 -- changes in the trail

local function int(x) return string.format('%.0f', x) end -- tostring would round above 1e14

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- parse reads settings out of a list; nil where a number is missing.
local function parse(list)
  local set = {}
  for i, name in ipairs(NUMBERS) do
    set[name] = tonumber(list[i])
    if not set[name] then return nil end
  end
  for i, name in ipairs(WORDS) do set[name] = list[#NUMBERS + i] or '' end
  return set
end

local function flat(set)
  local list = {}
  for _, name in ipairs(NUMBERS) do list[#list + 1] = int(set[name]) end
  for _, name in ipairs(WORDS) do list[#list + 1] = set[name] end
  return list
end

-- read returns the settings, or nil where a part is missing, and behind them what else is asked for.
local function read(...)
  local v = redis.call('HMGET', limit, 'changed', 'revision', 'cap', 'window', 'burst', 'guard', 'lateness', 'horizon', 'units',
    'period', 'paused', 'until', 'max_cap', 'max_step', 'reserve', 'max_nodes', 'from', 'was', 'by', 'why', ...)
  return parse(v), unpack(v, SETTINGS + 1)
end

local function write(set)
  local args = {}
  for i, value in ipairs(flat(set)) do
    args[#args + 1] = NUMBERS[i] or WORDS[i - #NUMBERS]
    args[#args + 1] = value
  end
  redis.call('HSET', limit, unpack(args))
end

-- terms_of packs what operators change into a word.
local function terms_of(set)
  local list = {}
  for _, name in ipairs(TERMS) do list[#list + 1] = int(set[name]) end
  return table.concat(list, ' ')
end

local function rails_of(set) return int(set.max_cap) .. ' ' .. int(set.max_step) end

-- record notes a change, and tells the nodes, which look by themselves where that is not allowed. Before are the
-- terms and the rails that were.
local function record(set, before, rails)
  redis.call('XADD', history, 'MAXLEN', KEPT, '*', 'revision', int(set.revision), 'changed', int(set.changed),
    'until', int(set['until']), 'from', before, 'to', terms_of(set), 'by', set.by, 'why', set.why,
    'rails_from', rails, 'rails_to', rails_of(set))
  redis.pcall('PUBLISH', limit, int(set.changed))
end
