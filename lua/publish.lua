-- Keep what one node says of itself, and count its calls of one second with those of the other nodes.
--
-- KEYS[1] figures  dispatcher:{<namespace>}:figures            hash: of each node "time_us text"
-- KEYS[2] seconds  dispatcher:{<namespace>}:seconds:<half minute>  hash: of each second of it, from 0, what happened: "12c" calls,
--                  "12r" calls that the provider refused for their rate, "12u" units that the calls counted, "12k" the cap and
--                  "12e" the effective cap in units a second
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
-- Reply: now_us
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

-- add counts calls of the second.
local function add(what, count)
  if count == '0' then return end
  local field = ARGV[3] .. what
  redis.call('HSET', seconds, field, string.format('%.0f', (tonumber(redis.call('HGET', seconds, field)) or 0) + count))
end

if ARGV[10] == '1' then forget() end
if ARGV[2] == '' then
  redis.call('HDEL', figures, node)
else
  redis.call('HSET', figures, node, string.format('%.0f ', now) .. ARGV[2])
  redis.call('PEXPIRE', figures, math.ceil(ARGV[9] / 1000))
end
if ARGV[3] ~= '-1' then
  add('c', ARGV[4])
  add('r', ARGV[5])
  add('u', ARGV[11])
  redis.call('HSET', seconds, ARGV[3] .. 'k', ARGV[6], ARGV[3] .. 'e', ARGV[7])
  redis.call('PEXPIRE', seconds, ARGV[8])
end
return now
