-- Read the fleet's rules, or replace them. events.lua is joined in front.
--
-- KEYS[1] rules   dispatcher:{<namespace>}:rules         hash: revision, list, memory
-- KEYS[2] events  dispatcher:{<namespace>}:rules:events  stream: event, by
--
-- ARGV[1] revision  that the new list was made from; -1: read only
-- ARGV[2] list      the new rules, as JSON
-- ARGV[3] channel   that nodes are notified on
-- ARGV[4] event     is written down; empty: nothing is
-- ARGV[5] by        who made the change
-- ARGV[6] put_back  revision that the new list had before Redis lost it; 0: it is new
-- ARGV[7] memory    beside the new list, as JSON: the highest id that was given
--
-- Reply: 1 now_us  2 revision in force  3 list in force  4 1: the change was made; 0: it was not  5 memory
--
-- The revision is the time of the change, so that it rises also after Redis has lost the rules. A list that is put back has its
-- own: a node that knows a newer one puts that back after it. Missing key: there are none.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local found = redis.call('HMGET', KEYS[1], 'revision', 'list', 'memory')
local revision, list, memory = tonumber(found[1] or 0) or 0, found[2] or '', found[3] or ''
if ARGV[1] == '-1' or tonumber(ARGV[1]) ~= revision then return {now, revision, list, 0, memory} end
local put_back = tonumber(ARGV[6])
revision, list, memory = put_back > 0 and put_back or math.max(now, revision + 1), ARGV[2], ARGV[7]
redis.call('HSET', KEYS[1], 'revision', string.format('%.0f', revision), 'list', list, 'memory', memory)
if ARGV[4] ~= '' then note_event(KEYS[2], ARGV[4], ARGV[5]) end
redis.pcall('PUBLISH', ARGV[3], string.format('%.0f', revision))
return {now, revision, list, 1, memory}
