-- with master.lua
-- Lease a share of the reserve to a node: what it may use by itself while it can't reach Redis. limit.lua is joined in
-- front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] shares  dispatcher:{<namespace>}:shares:<name>  hash: of each node with a share, when its lease ends; and since
--                 when, on which master and in which epoch every lease is known here
--
-- ARGV[1] node      its name, unique per start
-- ARGV[2] identity  info: ask INFO which master this is; none: this server can't tell
-- ARGV[3] lease_us  how long a share is lent
-- ARGV[4] state     1: the node has a share, by its own clock; 0: it has none; 2: it gives its share up
-- ARGV[5] left_us   with state 2: until the last call under the share is over; negative where it is
--
-- Reply: 1 now_us  2 epoch  3 granted: 1 or 0
--
-- Missing key: others may hold leases that are not known here, so for one whole lease no new one is granted; who has one
-- says so and keeps it. The same after a failover and after a fence.
local shares, node, identity = KEYS[3], ARGV[1], ARGV[2]
local lease, state, left = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])

local now, master = clock(), process(identity)
if not master then return redis.error_reply('IDENTITY this Redis does not say which master it is') end

local kept = redis.call('HMGET', limit, 'settings', 'epoch')
local set, epoch = unpacked(kept[1]), kept[2]
if not set or not epoch or set.max_nodes == 0 then return {now, tonumber(epoch or 0), 0} end

local known = redis.call('HMGET', shares, 'since', 'master', 'epoch')
if not known[1] or known[2] ~= master or known[3] ~= epoch then
  redis.call('DEL', shares)
  redis.call('HSET', shares, 'since', int(now), 'master', master, 'epoch', epoch)
  known[1] = now
end

-- What the last holder sent still counts for a window.
local binds = set.window + set.guard + set.lateness
local others, mine, all = 0, false, redis.call('HGETALL', shares)
for i = 1, #all, 2 do
  local name = all[i]
  if name ~= 'since' and name ~= 'master' and name ~= 'epoch' then
    if tonumber(all[i + 1]) + binds <= now then redis.call('HDEL', shares, name)
    elseif name == node then mine = true
    else others = others + 1 end
  end
end

local function grant(ends)
  redis.call('HSET', shares, node, int(ends))
  return {now, tonumber(epoch), state == '2' and 0 or 1}
end
if state == '2' then
  if mine then return grant(now + left) end
  return {now, tonumber(epoch), 0}
end
local complete = now >= tonumber(known[1]) + lease + binds
if others >= set.max_nodes or not (mine or state == '1' or complete) then return {now, tonumber(epoch), 0} end
return grant(now + lease)
