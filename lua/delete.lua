-- Delete a limit that no node uses. limit.lua is joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] state, KEYS[4] nodes: see reserve/call.lua
-- KEYS[5] leases: see lease.lua
-- KEYS[6] lateness: see lateness.lua
-- KEYS[7] calls: see reserve/calls.lua
-- KEYS[8] feedback, KEYS[9] events: see feedback.lua
--
-- ARGV[1] alive_us  a node that was here within this time uses the limit
--
-- Reply: 1 status: 0 deleted, 1 no such limit, 2 nodes use it  2 how many nodes
--
-- The limit's key stays, with not_before alone, until all calls under the limit have left its window: a limit of that name
-- that begins again grants nothing before. Missing key: status 1, nothing is written.
local alive = tonumber(ARGV[1])
local set, now = unpacked(redis.call('HGET', limit, 'settings')), clock()
if not set then return {1, 0} end

local users, all = 0, redis.call('HGETALL', KEYS[4])
for i = 1, #all, 2 do
  local seen = tonumber(string.match(all[i + 1], '^%d+ (%d+)') or 0)
  if seen >= now - alive then users = users + 1 end
end
local leases = redis.call('HGETALL', KEYS[5]) -- a node that is cut off uses its lease until that ends
for i = 1, #leases, 2 do
  local ends = tonumber(leases[i + 1])
  if leases[i] ~= 'since' and leases[i] ~= 'master' and leases[i] ~= 'epoch' and ends and ends > now then users = users + 1 end
end
if users > 0 then return {2, users} end

local counted = set.quota and 0 or set.window -- a quota's counts stay
local not_before = now + set.horizon + set.lateness + counted + set.guard
redis.call('DEL', limit, history, KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9])
redis.call('HSET', limit, 'not_before', int(not_before))
redis.call('PEXPIRE', limit, int(math.ceil((not_before - now) / 1000) + 1000))
return {0, 0}
