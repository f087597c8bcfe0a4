-- with slowdown.lua
-- Report how many of a node's calls the provider refused, and replace the limit's slowdown. Once a second one node gets the
-- reports of all nodes, to decide on the next one. limit.lua is joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] feedback  dispatcher:{<namespace>}:feedback:<name>  hash: of each node, its last report; looked, when they were handed
--                   out last
-- KEYS[4] events    dispatcher:{<namespace>}:events:<name>    stream: what became of the slowdowns, for people
--
-- ARGV[1] number  of the slowdown that the node knows; 0: none
-- ARGV[2] node    its name; empty: an operator
-- ARGV[3] report  numbers, see feedback.Counts; empty: none
-- ARGV[4] next    replaces the slowdown of that number: as throttle/limit packs it; end: none follows; empty: it stays
-- ARGV[5] event   is written down with next; empty: nothing
-- ARGV[6] by      who wrote it
--
-- Reply: 1 now_us  2 the slowdown in force; empty: none
--        3.. the reports of all nodes, where this node is to decide
--
-- Missing key: there is no slowdown. A number that is not the one in force changes nothing: another node was faster.
local feedback, events = KEYS[3], KEYS[4]
local LOOK = 1000000 -- from the begin of a slowdown, and between two nodes that get the reports: each node has reported by then
local KEPT_MS = 1800000 -- reports are remembered for so long

local now = clock()
local text = redis.call('HGET', limit, 'slowdown') or ''

local one = slowdown_of(text, now)
if text ~= '' and not one then
  redis.call('HDEL', limit, 'slowdown')
  text = ''
end
local current = one and int(one.number) or '0'
if ARGV[1] ~= current then return {now, text} end

if ARGV[4] ~= '' then
  text = ARGV[4] ~= 'end' and ARGV[4] or ''
  redis.call('DEL', feedback) -- those reports were about another slowdown
  if text == '' then redis.call('HDEL', limit, 'slowdown')
  else
    redis.call('HSET', limit, 'slowdown', text)
    redis.call('HSET', feedback, 'looked', int(now))
    redis.call('PEXPIRE', feedback, KEPT_MS)
  end
  if ARGV[5] ~= '' then
    note_event(events, ARGV[5], ARGV[6])
  end
  redis.pcall('PUBLISH', limit, 'changed')
  return {now, text}
end

if ARGV[3] == '' or not string.match(ARGV[3], '^[%d ]+$') then return {now, text} end
redis.call('HSET', feedback, ARGV[2], ARGV[3])
redis.call('PEXPIRE', feedback, KEPT_MS)
local reply = {now, text}
local looked = tonumber(redis.call('HGET', feedback, 'looked') or 0)
if looked > now then looked = 0 end -- this clock went back
if one then looked = math.max(looked, one.since) end
if now < looked + LOOK then return reply end
redis.call('HSET', feedback, 'looked', int(now))
local all = redis.call('HGETALL', feedback)
for i = 1, #all, 2 do
  if all[i] ~= 'looked' then reply[#reply + 1] = all[i + 1] end
end
return reply
