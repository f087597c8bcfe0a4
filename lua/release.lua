-- End the block of one value of a gate's key by hand. limit.lua and events.lua are joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] state   of the value: see reserve/gates.lua
-- KEYS[4] events  of the gate: see feedback.lua
--
-- ARGV[1] event  is written down
-- ARGV[2] by     who ends it
--
-- Reply: when the block would have ended, µs; 0: there is none
--
-- The last grant stays in the state, so the cap holds. Missing key: there is no block.
local grant, till = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+ %d+ %d+) (%d+)$')
if not till or tonumber(till) <= clock() then return 0 end
redis.call('SET', KEYS[3], grant, 'KEEPTTL')
note_event(KEYS[4], ARGV[1], ARGV[2])
return tonumber(till)
