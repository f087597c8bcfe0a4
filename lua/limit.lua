-- What the scripts of a limit share: its clock, its settings, and the trail of their changes. It is joined in
-- front of the others.
--
-- KEYS[1] limit    dispatcher:{<namespace>}:limit:<name>    hash: the settings, and what each algorithm needs
-- KEYS[2] history  dispatcher:{<namespace>}:history:<name>  stream: the last changes of the settings
--
-- The settings are one JSON value that throttle/packed.go writes; times are in µs. Scripts compare it as a string and
-- unpack it for the numbers that they need. units / period is the pace that follows from the contract; after is the
-- packed settings that take over at until, where an override is on.
local limit, history = KEYS[1], KEYS[2]
local KEPT = 1000 -- changes in the trail
local VERSION = 2 -- of the packed settings

local function int(x) return string.format('%.0f', x) end -- tostring would round above 1e14

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- unpacked reads packed settings; nil where they are missing or of another version.
local function unpacked(packed)
  if not packed then return nil end
  local ok, set = pcall(cjson.decode, packed)
  if ok and type(set) == 'table' and set.v == VERSION then return set end
  return nil
end

-- note sets a field of the limit's hash with the next flush, so that a call writes the hash once.
local noted = {}
local function note(field, value)
  noted[#noted + 1] = field
  noted[#noted + 1] = value
end
local function flush()
  if #noted > 0 then redis.call('HSET', limit, unpack(noted)) end
  noted = {}
end

-- record notes a change and wakes the nodes. Nodes poll by themselves where PUBLISH is not allowed.
local function record(before, packed)
  redis.call('XADD', history, 'MAXLEN', KEPT, '*', 'from', before, 'to', packed)
  redis.pcall('PUBLISH', limit, 'changed')
end
