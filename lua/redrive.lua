-- Read the fleet's redrives, or write one of them. events.lua is joined in front.
--
-- KEYS[1] redrives  dispatcher:{<namespace>}:redrives         hash: revision; of each run <id>, <id>:at (us), <id>:stop
-- KEYS[2] events    dispatcher:{<namespace>}:redrives:events  stream: event, by
--
-- ARGV[1] revision  that a new run was made from; *: any, and nothing new begins; -1: read only
-- ARGV[2] id        of the run
-- ARGV[3] entry     of the run, as JSON; empty: none is written
-- ARGV[4] stop      the request to stop it, as JSON; empty: none is written. There must be such a run
-- ARGV[5] event     is written down; empty: nothing is
-- ARGV[6] by        who caused the event
-- ARGV[7] …         runs that are removed
--
-- Reply: 1 now_us  2 revision in force  3 1: it was written; 0: it was not  4 stop request, or ''  5 the fields, when only read
--
-- The revision changes with each new run, so of two that begin at the same time one is refused. Missing key: there are no runs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local revision = tonumber(redis.call('HGET', KEYS[1], 'revision') or 0)
if ARGV[1] == '-1' then return {now, revision, 0, '', redis.call('HGETALL', KEYS[1])} end
local id = ARGV[2]
if ARGV[1] ~= '*' then
  if tonumber(ARGV[1]) ~= revision then return {now, revision, 0, '', {}} end
  revision = math.max(now, revision + 1)
  redis.call('HSET', KEYS[1], 'revision', string.format('%.0f', revision))
end
if ARGV[4] ~= '' then
  if redis.call('HEXISTS', KEYS[1], id) == 0 then return {now, revision, 0, '', {}} end
  redis.call('HSET', KEYS[1], id .. ':stop', ARGV[4])
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], id, ARGV[3], id .. ':at', string.format('%.0f', now)) end
for i = 7, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i], ARGV[i] .. ':at', ARGV[i] .. ':stop') end
if ARGV[5] ~= '' then note_event(KEYS[2], ARGV[5], ARGV[6]) end
return {now, revision, 1, redis.call('HGET', KEYS[1], id .. ':stop') or '', {}}
