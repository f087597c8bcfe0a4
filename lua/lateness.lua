-- Count how late a node's slots were. Once a second one node gets the counts of the whole fleet, to choose the lateness.
-- limit.lua is joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] lateness  dispatcher:{<namespace>}:lateness:<name>  hash: since, when counting began; patience, see throttle/lateness;
--                   fell, when the lateness fell last; asked, when the counts were handed out last; s0 to s7, counts of
--                   one second, and t0 to t31, of ten: the number of that time, and behind it the slots by class; m0 to m11,
--                   round trips to the provider of one minute: its number, the connections, lowest and highest in µs
--
-- ARGV[1] counts       slots by class since the node's last report
-- ARGV[2] moved        the node has just changed the lateness: rose or fell; empty: it has not
-- ARGV[3] patience_us  with rose, the patience from now on
-- ARGV[4] trips        connections opened since the node's last report, lowest and highest round trip in µs; empty: none
--
-- Reply: 1 now_us  2 since_us  3 patience_us  4 fell_us: 0 never
--        5.. names and values of the hash, where this node is to choose
--
-- Missing key: counting begins. Counts that no node can have are refused: one broken node changes no lateness.
local lateness = KEYS[3]
local CLASSES = 8
local SECONDS, TENS, MINUTES = 8, 32, 12 -- times that are kept of each kind
local CHOOSE = 1000000 -- between two nodes that get the counts
local LONGEST = 30000000 -- no report covers more time than this
local KEPT_MS = 7200000 -- nothing is remembered of a limit that was idle for this long

-- numbers reads counts; nil where they are not the right number of whole numbers.
local function numbers(text, many)
  local list, sum = {}, 0
  for word in string.gmatch(text, '%S+') do
    local n = string.match(word, '^%d+$') and tonumber(word)
    if not n then return nil end
    list[#list + 1] = n
    sum = sum + n
  end
  if #list ~= many then return nil end
  return list, sum
end

-- stored returns the numbers of a field, where they are of this time and not of an earlier one.
local function stored(field, number, many)
  local at, rest = string.match(redis.call('HGET', lateness, field) or '', '^(%d+) (.*)$')
  return at == int(number) and numbers(rest, many) or nil
end

local function store(field, number, list)
  local words = {int(number)}
  for _, n in ipairs(list) do words[#words + 1] = int(n) end
  redis.call('HSET', lateness, field, table.concat(words, ' '))
end

-- count adds slots to those of a time.
local function count(field, number, counts)
  local old, list = stored(field, number, CLASSES) or {}, {}
  for i, n in ipairs(counts) do list[i] = n + (old[i] or 0) end
  store(field, number, list)
end

-- join adds round trips to those of their minute.
local function join(minute, trips)
  local field = 'm' .. minute % MINUTES
  local old = stored(field, minute, 3) or {0, trips[2], trips[3]}
  store(field, minute, {old[1] + trips[1], math.min(old[2], trips[2]), math.max(old[3], trips[3])})
end

local now = clock()
local set = unpacked(redis.call('HGET', limit, 'settings'))
local counts, sum = numbers(ARGV[1], CLASSES)
local trips = numbers(ARGV[4], 3)
if not set or not set.auto then return {now, 0, 0, 0} end
if not counts or sum > set.units / set.period * LONGEST + set.cap then
  return redis.error_reply('COUNTS no node can have had these slots')
end

if ARGV[2] == 'rose' then -- counts from before are no reason to fall
  local old = {'since', 'asked'}
  for i = 0, SECONDS - 1 do old[#old + 1] = 's' .. i end
  for i = 0, TENS - 1 do old[#old + 1] = 't' .. i end
  redis.call('HDEL', lateness, unpack(old))
  redis.call('HSET', lateness, 'patience', ARGV[3])
elseif ARGV[2] == 'fell' then
  redis.call('HSET', lateness, 'fell', int(now))
end
local since = tonumber(redis.call('HGET', lateness, 'since') or 0)
if since == 0 or since > now then redis.call('HSET', lateness, 'since', int(now)) end -- or the clock was set back
if sum > 0 then
  local second = math.floor(now / 1000000)
  local ten = math.floor(second / 10)
  count('s' .. second % SECONDS, second, counts)
  count('t' .. ten % TENS, ten, counts)
end

if trips and trips[1] > 0 and trips[2] <= trips[3] then join(math.floor(now / 60000000), trips) end

local v = redis.call('HMGET', lateness, 'since', 'patience', 'fell', 'asked')
local reply = {now, tonumber(v[1]), tonumber(v[2] or 0), tonumber(v[3] or 0)}
local asked = tonumber(v[4] or 0)
if ARGV[2] == '' and (now >= asked + CHOOSE or now < asked) then
  redis.call('HSET', lateness, 'asked', int(now))
  redis.call('PEXPIRE', lateness, KEPT_MS)
  for _, word in ipairs(redis.call('HGETALL', lateness)) do reply[#reply + 1] = word end
end
return reply
