-- Keep what one node says of itself, and count its calls of one second with those of the other nodes.
--
-- KEYS[1] figures  dispatcher:{<namespace>}:figures            hash: of each node "time_us text"
-- KEYS[2] seconds  dispatcher:{<namespace>}:seconds:<half minute>  hash: of each second of it, from 0, what happened: "12c" calls,
--                  "12r" calls that the provider refused for their rate, "12u" units that the calls counted, "12k" the cap and
--                  "12e" the effective cap in units a second
-- KEYS[3] rules    dispatcher:{<namespace>}:rules          hash: revision, and what rules.lua keeps; only read
--
-- ARGV[1] node       its name, "-" and 16 digits, unique per start
-- ARGV[2] text       what it says; empty: the node ends
-- ARGV[3] second     of the half minute that the counts are of; -1: none
-- ARGV[4] calls, ARGV[5] refused, ARGV[6] cap, ARGV[7] effective  of that second
-- ARGV[8] keep_ms    how long the counts stay
-- ARGV[9] gone_us    what a node says is removed after this time, when another one starts
-- ARGV[10] starts    1: the node says something for the first time
-- ARGV[11] units     that the calls of that second counted
--
-- Reply: 1 now_us  2 revision of the rules in force; 0: there are none
--
-- Missing key: no node said anything, and no call was made.
local figures, seconds, node = KEYS[1], KEYS[2], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- forget removes what nodes said that are gone: one that was killed does not say that it ends. So it removes what another process
-- of this name said. Where that one still works, it says something again within a second.
local function forget()
  local all, name = redis.call('HGETALL', figures), string.sub(node, 1, -18)
  for i = 1, #all, 2 do
    local at = tonumber(string.match(all[i + 1], '^(%d+) ') or 0)
    if string.sub(all[i], 1, -18) == name or math.abs(now - at) > tonumber(ARGV[9]) then redis.call('HDEL', figures, all[i]) end
  end
end

-- The first node that says something of a second keeps both hashes from ending.
local first = true

-- count adds the node's calls to those of the second.
local function count()
  local added = {ARGV[4], ARGV[5], ARGV[11]}
  local at = {ARGV[3] .. 'c', ARGV[3] .. 'r', ARGV[3] .. 'u', ARGV[3] .. 'k', ARGV[3] .. 'e'}
  local found, set = redis.call('HMGET', seconds, unpack(at)), {}
  local function put(field, value)
    set[#set + 1] = field
    set[#set + 1] = value
  end
  first = not found[4]
  for i = 1, #added do
    if added[i] ~= '0' then put(at[i], string.format('%.0f', (tonumber(found[i]) or 0) + added[i])) end
  end
  if found[4] ~= ARGV[6] or found[5] ~= ARGV[7] then
    put(at[4], ARGV[6])
    put(at[5], ARGV[7])
  end
  if #set > 0 then redis.call('HSET', seconds, unpack(set)) end
  if first then redis.call('PEXPIRE', seconds, ARGV[8]) end
end

if ARGV[10] == '1' then forget() end
if ARGV[3] ~= '-1' then count() end
if ARGV[2] == '' then
  redis.call('HDEL', figures, node)
else
  redis.call('HSET', figures, node, string.format('%.0f ', now) .. ARGV[2])
  if first then redis.call('PEXPIRE', figures, math.ceil(ARGV[9] / 1000)) end
end
return {now, tonumber(redis.pcall('HGET', KEYS[3], 'revision') or 0) or 0}
