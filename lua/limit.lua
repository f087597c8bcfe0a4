-- What the scripts of a limit share: its clock, its settings, and the history of their changes. It is joined in front of
-- the others.
--
-- KEYS[1] limit    dispatcher:{<namespace>}:limit:<name>    hash: the settings, and the fields that each algorithm needs
-- KEYS[2] history  dispatcher:{<namespace>}:history:<name>  stream: the last changes of the settings
--
-- The settings are one JSON value that throttle/limit/packed.go writes. Scripts compare it as a string, and unpack it for
-- the numbers that they need. units / period is the pace of the algorithm under the contract. Under an override, revert_to holds
-- the packed settings that take over at revert_at.
local limit, history = KEYS[1], KEYS[2]
local KEPT = 1000 -- changes in the history
local VERSION = 3 -- of the packed settings

-- int writes a whole number. tostring would round above 1e14. %.0f takes more than twice as long as %d, but a Redis for 32 bits knows no
-- larger numbers in %d.
local WHOLE = string.format('%d', 2 ^ 53) == '9007199254740992' and '%d' or '%.0f'
local function int(x) return string.format(WHOLE, x) end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- unpacked reads packed settings, with durations in µs; nil where they are missing or of another version.
local function unpacked(packed)
  if not packed then return nil end
  local ok, set = pcall(cjson.decode, packed)
  if not ok or type(set) ~= 'table' or set.v ~= VERSION then return nil end
  set.max_cost, set.max_in_flight = math.max(1, set.max_cost or 1), set.max_in_flight or 0
  set.window, set.guard, set.lateness, set.horizon = set.window / 1000, set.guard / 1000, set.lateness / 1000, set.horizon / 1000
  set.rolling = (set.rolling or 0) / 1000
  set.quota = set.rolling > 0 or set.calendar ~= nil
  return set
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

-- record writes a change of this limit, or of another one, down and wakes the nodes. Nodes poll by themselves where PUBLISH is
-- not allowed.
local function record(before, packed, other, stream)
  redis.call('XADD', stream or history, 'MAXLEN', KEPT, '*', 'from', before, 'to', packed)
  redis.pcall('PUBLISH', other or limit, 'changed')
end

-- ended puts the settings that follow an override into force, of this limit or of another one, and returns them
-- packed and unpacked.
local function ended(before, set, other, stream)
  redis.call('HSET', other or limit, 'settings', set.revert_to)
  record(before, set.revert_to, other, stream)
  return set.revert_to, unpacked(set.revert_to)
end
