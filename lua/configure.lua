-- Change a limit's settings. reserve.lua is the only other writer of them: it restores them and ends overrides. The next
-- reservation takes the timeline over, since it knows the algorithm. limit.lua is joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
--
-- ARGV[1] expected  the packed settings that the caller has read; others may have been faster
-- ARGV[2] packed    the packed settings that replace them
--
-- Reply: 0 changed, 1 no such limit, 2 another change was faster
--
-- Missing key: 1, and nothing is written.
local stored = redis.call('HGET', limit, 'settings')
if not stored then return 1 end
if stored ~= ARGV[1] then return 2 end
redis.call('HSET', limit, 'settings', ARGV[2])
record(stored, ARGV[2])
return 0
