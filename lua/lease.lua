-- with master.lua
-- Lease a part of the reserve to a node: the units that it may use by itself while it can't reach Redis. limit.lua is
-- joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] leases  dispatcher:{<namespace>}:leases:<name>  hash: of each node with a lease, when it ends; and since when, on
--                 which master and in which epoch every lease is known here
--
-- ARGV[1] node       its name, unique per start
-- ARGV[2] identity   info: ask INFO which master this is; none: this server can't tell
-- ARGV[3] length_us  of a lease
-- ARGV[4] state      1: the node has a lease, by its own clock; 0: it has none; 2: it gives its lease up
-- ARGV[5] left_us    with state 2: until the last call under the lease is over; negative where it is
--
-- Reply: 1 now_us  2 epoch  3 granted: 1 or 0
--
-- Missing key: others may hold leases that are not known here, so for the length of a lease no new one is granted. A node
-- that has one says so and keeps it. The same holds after a failover and after a cooldown.
local leases, node, identity = KEYS[3], ARGV[1], ARGV[2]
local length, state, left = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])

local now, master = clock(), process(identity)
if not master then return redis.error_reply('IDENTITY this Redis does not say which master it is') end

local kept = redis.call('HMGET', limit, 'settings', 'epoch')
local set, epoch = unpacked(kept[1]), kept[2]
local function reply(granted) return {now, tonumber(epoch or 0), granted} end
if not set or not epoch or set.max_nodes == 0 then return reply(0) end

local known = redis.call('HMGET', leases, 'since', 'master', 'epoch')
if not known[1] or known[2] ~= master or known[3] ~= epoch then
  redis.call('DEL', leases)
  redis.call('HSET', leases, 'since', int(now), 'master', master, 'epoch', epoch)
  known[1] = now
end

local counts = set.window + set.guard + set.lateness -- the units of the last holder still count for a window
local others, holds, all = 0, false, redis.call('HGETALL', leases)
for i = 1, #all, 2 do
  local name = all[i]
  if name ~= 'since' and name ~= 'master' and name ~= 'epoch' then
    if tonumber(all[i + 1]) + counts <= now then redis.call('HDEL', leases, name)
    elseif name == node then holds = true
    else others = others + 1 end
  end
end

if state == '2' then
  if holds then redis.call('HSET', leases, node, int(now + left)) end
  return reply(0)
end
local complete = now >= tonumber(known[1]) + length + counts
if others >= set.max_nodes or not (holds or state == '1' or complete) then return reply(0) end
redis.call('HSET', leases, node, int(now + length))
return reply(1)
