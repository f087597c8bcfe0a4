-- One call of a node: its arguments, the limit's state, and the reply. limit.lua, jobs.lua, one of the algorithms and
-- master.lua are joined in front, and the other files of reserve/ and reserve.lua behind.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] state     dispatcher:{<namespace>}:state:<name>            the algorithm's state beside the limit's hash
-- KEYS[4] reserved  dispatcher:{<namespace>}:reserved:<name>:<node>  string: the last reservation of this node
-- KEYS[5] nodes     dispatcher:{<namespace>}:nodes:<name>            hash: of each node, the newest settings it knows, when it
--                                                                   was here, since when it reads this clock, and the share
--                                                                   of the time in which its jobs waited, in thousandths
-- KEYS[6] calls     dispatcher:{<namespace>}:calls:<name>            hash: of each node, its calls in flight; see calls.lua
--
-- ARGV[1] want       units wanted; 0 polls, and gives the node's place in the queue up
-- ARGV[2] seq        number of this reservation; a retry under the same number gets the same slots
-- ARGV[3] flags      letters: r a retry, s the node saw this clock step, w a refused node waits in the queue, d its time in
--                    the queue has come, p write the node's record, h publish a message that only this node heeds, l the
--                    settings it knows came from Redis, x the node leaves
-- ARGV[4] epoch      the epoch that the node's mapping of this clock belongs to; 0: it has none
-- ARGV[5] since      the node's first reading of this clock in that epoch, µs; and behind it, of each limit, the share of the
--                    time in which jobs of the node waited for it, in thousandths
-- ARGV[6] read_us    its last reading; with s, the last one that it trusts
-- ARGV[7] identity   info: ask INFO which master this is; none: this server can't tell
-- ARGV[8] nearest_us    no slot is nearer than this
-- ARGV[9] node       its name, unique per start
-- ARGV[10] learn_us  the time in which every node polls
-- ARGV[11] reach_us  nothing further ahead is granted to this node; 0: the horizon alone bounds it
-- ARGV[12] place     its ticket in the queue, -1: none; and the lane of the jobs, see lanes.lua
-- ARGV[13] known     the newest settings that the node knows, packed
-- ARGV[14] began_us  when the timeline of these began
-- ARGV[15] costs     the units of each job that wants some, in order; empty: each wants one
-- ARGV[16] busy      calls that the node has in flight, jobs that wait for their slots included, and with a poll those that
--                    the reply to a reservation may have granted that was lost
-- ARGV[17] hold_us   a call that is granted now is over then
-- ARGV[18] call      number of this call of the node
-- ARGV[19] corrections  "slot_us:units" of slots, given back (of the epoch that the node knows) or, negative, charged (of any)
-- ARGV[20] and on: the gates, see gates.lua
--
-- Reply: 1 now_us  2 epoch  3 given  4 base_us  5 n  6 floor_us  7 units  8 period_us  9 debt
--        10 wait_us: until the node is to ask again
--        11 cooldown, why one begins: 0 none does, 1 settings lost, 2 settings older than the node's, 3 the algorithm's state
--           lost, 4 another master, 5 the clock went back, 6 nodes saw it step, 7 another algorithm
--        12 not_before_us: nothing is granted that lies before this
--        13 began_us  14 ticket: -1 none  15 poll_us: when a refused node polls, to see whether those ahead of it ask
--        16 why jobs that want a slot get none: 1 calls in flight left no room for them, 2 the algorithm had no more units; 0:
--           for another reason, such as a pause
--        17 the slowdown, see slowdown.lua; empty: none
--        18 the settings in force, where they are not those that the node knows
--        19 and on: where slots may go to any of the jobs, see gates.lua
--        Slot j, from 0, lies at max(floor, base + ceil((n + j - debt) * period / units)).
--        Where the settings in force name another algorithm, nothing is done: the node asks again with that one's script.
--
-- Missing key: the node's settings are taken, and nothing is granted until all slots that may be out are over.
local reserved, nodes = KEYS[4], KEYS[5]
local want, seq, flags, epoch = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local since, read = tonumber(string.match(ARGV[5], '^%d+')), tonumber(ARGV[6])
local identity, nearest, node, learn = ARGV[7], tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10])
local reach, known = tonumber(ARGV[11]), ARGV[13]
local POLL = 4000000 -- a node that can't be given a time polls after this one

local function flag(letter) return string.find(flags, letter, 1, true) end

-- timeline puts the algorithm's fields of the limit's hash, which lie behind the first ones of v, into c. Those that it names
-- as texts are no numbers.
local function timeline(c, v, first)
  for i, field in ipairs(algorithm.fields) do
    local text = algorithm.texts and algorithm.texts[field]
    c[field] = text and v[first + i] or tonumber(v[first + i])
  end
end

local v = redis.call('HMGET', limit, 'settings', 'applied', 'last', 'not_before', 'epoch', 'master', 'run', 'began',
  'lanes', 'step_report', 'owed', 'slowdown', 'paced', unpack(algorithm.fields))
local OWN = 13 -- fields of the frame, in front of the algorithm's
local stored, applied, last, not_before = v[1], v[2], tonumber(v[3]), tonumber(v[4])
local current, master, ran, began = v[5], v[6], v[7], tonumber(v[8])
local step_report = v[10]

-- seldom reads a field that few calls need.
local function seldom(field) return redis.call('HGET', limit, field) end
local earmark = not AHEAD and seldom('earmark')

local now = clock()
local history_id, info = replication(identity)
if not history_id then return redis.error_reply('IDENTITY this Redis does not say which master it is') end

local set = unpacked(stored)
if stored and not set then return redis.error_reply('VERSION the settings in Redis are of a version that this node does not know') end
local own = known == stored and set or unpacked(known)
if not own then return redis.error_reply('ERR the settings that the node knows can not be read') end
if set and set.gate then
  return redis.error_reply('VERSION this limit is not the first one of other nodes; give one of them another name')
end
local newer = set and own.changed > set.changed

-- How late calls may be, or have been while units were granted that a gate still counts: see gates.lua.
local HORIZON = 300000 -- no slot is further away: limit.MaxHorizon
local LONGEST = 60000000 -- a gate's window is no longer: limit.MaxGateWindow
local function widest_of(guard)
  local before, till = string.match(seldom('wide') or '', '^(%d+) (%d+)$')
  return before and now < tonumber(till) and math.max(guard, tonumber(before)) or guard
end
local function note_wide(guard)
  guard = widest_of(guard)
  if guard > set.guard then note('wide', int(guard) .. ' ' .. int(now + HORIZON + LONGEST + 2 * guard)) end
end

local short = 0 -- number 16 of the reply
local gates, gate_texts, granted_jobs, refused_jobs = {}, {}, '', '' -- see gates.lua
local lanes -- see lanes.lua
local keep, repeated -- see calls.lua; jobs of a reservation that comes again, which it may do once more
local function reply(given, first, nth, floor, units, period, debt, wait, cooldown, place, poll)
  if keep then keep(repeated or (shared(given, math.huge))) end
  if place and place >= 0 then lanes.stay(given > 0 and set.horizon or math.min(wait, poll or POLL)) end
  lanes.keep()
  flush()
  local r = {now, tonumber(epoch), given, first, nth, floor, units, period, debt, wait, cooldown, not_before or 0, began or 0,
    place or -1, poll or POLL, short, v[12] or ''}
  if stored ~= known then r[18] = stored end
  if CHOOSES then
    r[18], r[19], r[20] = r[18] or '', granted_jobs, refused_jobs
    local all = tonumber(ARGV[20])
    for g = 1, all do
      r[20 + g] = gate_texts[g] or ''
      r[20 + all + g] = gates[g] and gates[g].quota and ARGV[20 + 4 * g] ~= '' and redis.call('GET', KEYS[6 + 4 * g])
        or gates[g] and gates[g].waits or ''
    end
  end
  return r
end
local function nothing(wait, cooldown, place, poll) return reply(0, now, 0, now, 1, 1, 0, wait, cooldown or 0, place, poll) end
