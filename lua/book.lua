-- with master.lua
-- Reserve for a node what it may use next of a limit. limit.lua and one of the algorithms are joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] state   dispatcher:{<namespace>}:state:<name>          what the algorithm keeps beside the limit's hash
-- KEYS[4] booked  dispatcher:{<namespace>}:booked:<name>:<node>  string: what this node was granted last
-- KEYS[5] nodes   dispatcher:{<namespace>}:nodes:<name>          hash: of each node, the newest settings it knows, when it
--                                                               was here, and since when it reads this clock
--
-- ARGV[1] want       units wanted; 0 polls, and gives the node's place in the queue up
-- ARGV[2] seq        number of this reservation; a retry under the same number gets the same slots
-- ARGV[3] flags      letters: r a retry, s the node saw this clock step, w a refused node waits in the queue, d its time in
--                    the queue has come, p write the node's record, h publish a word that only this node heeds, l the
--                    settings it knows came from Redis, x the node leaves
-- ARGV[4] epoch      the epoch that the node's mapping of this clock belongs to; 0: it has none
-- ARGV[5] since_us   the node's first reading of this clock in that epoch
-- ARGV[6] read_us    its last reading; with s, the last one that it trusts
-- ARGV[7] identity   info: ask INFO which master this is; none: this server can't tell
-- ARGV[8] lead_us    no slot is nearer than this
-- ARGV[9] node       its name, unique per start
-- ARGV[10] learn_us  the time in which every node has come by
-- ARGV[11] reach_us  nothing further ahead is granted to this node; 0: the horizon alone says
-- ARGV[12] ticket    its place in the queue; -1: none
-- ARGV[13] known     the newest settings that the node knows, packed
-- ARGV[14] from_us   where the timeline of these began
--
-- Reply: 1 now_us  2 epoch  3 given  4 base_us  5 n  6 floor_us  7 units  8 period_us  9 debt
--        10 wait_us: until it is the node's turn to ask again
--        11 fence: 0 none, 1 settings lost, 2 settings older than the node's, 3 the algorithm's state lost,
--                  4 another master, 5 the clock went back, 6 nodes saw it step, 7 another algorithm
--        12 quiet_us: nothing is granted that lies before this
--        13 from_us  14 ticket: -1 none  15 poll_us: when a refused node is to come by to see whether those ahead do
--        16 the settings in force, where they are not those that the node knows
--        Slot j, from 0, lies at max(floor, base + ceil((n + j - debt) * period / units)).
--        Where the settings in force name another algorithm, nothing is done: the node asks again with that one's script.
--
-- Missing key: the node's settings are taken, and nothing is granted until all that may be out is over.
local booked, nodes = KEYS[4], KEYS[5]
local want, seq, flags, epoch = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local since, read = tonumber(ARGV[5]), tonumber(ARGV[6])
local identity, lead, node, learn = ARGV[7], tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10])
local reach, ticket, known, from = tonumber(ARGV[11]), tonumber(ARGV[12]), ARGV[13], tonumber(ARGV[14])
local STEP = 2000 -- a clock that goes back by less is held
local GONE = 600000000 -- the record of a node that was not here for this long is removed
local ALIVE = 9000000 -- a node that was here within this time is there: it polls every 4 s at least
local SETTLED = 2000000 -- a node that is younger has no place in the queue: many that come and go would fill it
local SPARE = 100000 -- what those ahead in the queue leave for this long goes to whoever asks, and half of the reach at most
local AGAIN = 5000000 -- two nodes that report a step within this time confirm each other
local POLL = 4000000 -- a node that can't be told a time comes by after this one
local SELDOM = 3500000 -- a node that waits in the queue comes by no sooner than this, but for its own time
local LATEST = 6000000 -- nor later
local HOLD = 20000 -- while a report of a step waits for a second opinion

local function flag(letter) return string.find(flags, letter, 1, true) end

local v = redis.call('HMGET', limit, 'settings', 'under', 'last', 'quiet', 'base', 'n', 'slot', 'epoch', 'master', 'run', 'from',
  'queued', 'served', 'spare', 'suspect', 'start', 'keep', 'tat_ns', 'passed')
local stored, under, last, quiet = v[1], v[2], tonumber(v[3]), tonumber(v[4])
local of, master, ran, began = v[8], v[9], v[10], tonumber(v[11])
local queued, served, spare, suspect = tonumber(v[12] or 0), tonumber(v[13] or 0), tonumber(v[14] or 0), v[15]

local now = clock()
local history_id, info = replication(identity)
if not history_id then return redis.error_reply('IDENTITY this Redis does not say which master it is') end

if flag('x') then -- the node leaves: nobody waits for it
  redis.call('HDEL', nodes, node)
  redis.call('DEL', booked)
end

local set = unpacked(stored)
if stored and not set then return redis.error_reply('VERSION the settings in Redis are of a version that this node does not know') end
local mine = known == stored and set or unpacked(known)
if not mine then return redis.error_reply('ERR the settings that the node knows can not be read') end
local newer = set and mine.changed > set.changed

local function reply(given, first, nth, floor, units, period, debt, wait, fence, place, poll)
  flush()
  local r = {now, tonumber(epoch), given, first, nth, floor, units, period, debt, wait, fence, quiet or 0, began or 0, place or -1,
    poll or POLL}
  if stored ~= known then r[16] = stored end
  return r
end
local function nothing(wait, fence, place, poll) return reply(0, now, 0, now, 1, 1, 0, wait, fence or 0, place, poll) end

local over = set and not newer and set['until'] > 0 and now >= set['until']
if over then -- the override has ended
  local before = stored
  stored = set.after
  set = unpacked(stored)
  redis.call('HSET', limit, 'settings', stored)
  record(before, stored)
end
if set and not newer and set.algorithm ~= algorithm.name then return nothing(0) end

-- attend writes the node's record.
local function attend()
  if (want == 0 or flag('p')) and not flag('x') then
    redis.call('HSET', nodes, node, int(mine.changed) .. ' ' .. int(now) .. ' ' .. int(since))
  end
end

-- others calls f with each node that is there, but for this one.
local function others(f)
  local all = redis.call('HGETALL', nodes)
  for i = 1, #all, 2 do
    local seen, first = string.match(all[i + 1], '^%d+ (%d+) (%d+)$')
    seen, first = tonumber(seen), tonumber(first)
    if not seen or seen < now - GONE then redis.call('HDEL', nodes, all[i])
    elseif all[i] ~= node and seen >= now - ALIVE then f(first) end
  end
end

-- A step of the clock that one node alone sees may be its own: a host that stood still. Nothing is granted until a node
-- that has read this clock since before that has read it again. One that sees the step as well confirms it.
local function stepped()
  if not flag('s') or epoch ~= of then return false end
  local by, at = string.match(suspect or '', '^(%S+) (%d+) %d+$')
  if by and now - tonumber(at) < AGAIN then return by ~= node end -- one node that reports again and again is not heeded
  local witnesses = 0
  others(function(first) if first > 0 and first <= read then witnesses = witnesses + 1 end end)
  if witnesses == 0 then return true end
  suspect = node .. ' ' .. int(now) .. ' ' .. int(read)
  redis.call('HSET', limit, 'suspect', suspect)
  redis.pcall('PUBLISH', limit, 'poll')
  return false
end

-- held reports whether a report of a step still waits for a second opinion; this call may be it.
local function held()
  local by, at, before = string.match(suspect or '', '^(%S+) (%d+) (%d+)$')
  if not by or before == '0' then return false end
  if by ~= node and epoch == of and not flag('s') and since > 0 and since <= tonumber(before) and read >= tonumber(at) then
    redis.call('HSET', limit, 'suspect', by .. ' ' .. at .. ' 0')
    return false
  end
  return true, now - tonumber(at) > learn
end

local old = under == stored and set or unpacked(under)
local c = newer and mine or set or mine
c.base, c.n, c.slot, c.passed = tonumber(v[5]), tonumber(v[6]), tonumber(v[7]), tonumber(v[19])
c.start, c.keep, c.tat_ns = tonumber(v[16]), tonumber(v[17]), v[18]
local waiting, unanswered
local fence = 0
if not set then fence = 1
elseif newer then fence = 2
elseif not (last and quiet and master and ran and of and old) then fence = 3
elseif old.algorithm ~= set.algorithm then fence = 7
elseif not algorithm.whole(c, now) then fence = 3
elseif history_id ~= master and (process(identity) ~= ran or promoted(info)) then fence = 4
elseif now < last - STEP then fence = 5
elseif stepped() then fence = 6
else
  waiting, unanswered = held()
  if unanswered then fence = 6 end -- nobody is there any more that could tell
end

-- span is how long after its slot a unit may count under any algorithm.
local function span(a, b) return math.max(a.window, b.window) + math.max(a.guard, b.guard) end

if fence > 0 then
  if fence < 3 then
    set, stored, began = mine, known, from
    redis.call('HSET', limit, 'settings', stored)
    redis.call('PERSIST', limit) -- what `limit delete` leaves behind has a time to live
  end
  -- All slots that may be out lie within one horizon, are late after the lateness, and count for as long as the
  -- algorithm says. Other nodes may have newer settings than these.
  local before = quiet or 0
  quiet = now + set.horizon + set.lateness + algorithm.binds(set)
  began = began or 0
  if fence == 1 then
    quiet = math.max(quiet, now + learn)
    -- What is left of a limit that was deleted tells a node that knows only its file: others may have used other terms.
    -- The nodes remember it as from, should the key be lost again meanwhile.
    if not flag('l') and redis.call('EXISTS', nodes, history) > 0 then
      quiet = math.max(quiet, now + set.horizon + set.lateness + span(set, set))
      began = math.max(began, quiet)
    end
    if before > now then -- `limit delete` left it behind
      quiet = math.max(quiet, before)
      began = math.max(began, quiet)
    end
  end
  if old and under ~= stored and (fence > 3 or old.algorithm ~= set.algorithm) then -- what is owed under other terms is paid by waiting
    began = now + math.max(old.horizon, set.horizon) + math.max(old.lateness, set.lateness) + span(old, set)
    quiet = math.max(quiet, began)
  end
  quiet = math.max(quiet, math.min(began, now + set.horizon + set.lateness + set.window + set.guard))
  epoch = int(now)
  redis.call('DEL', KEYS[3], booked)
  algorithm.begin(set, quiet)
  redis.call('HDEL', limit, 'suspect')
  redis.call('HSET', limit, 'last', int(now), 'master', history_id, 'run', process(identity) or '', 'epoch', epoch, 'quiet', int(quiet),
    'under', stored, 'from', int(began), 'queued', 0, 'served', 0, 'spare', 0)
  attend()
  redis.pcall('PUBLISH', limit, epoch) -- each node is to poll now, and to bring what it knows
  return nothing(quiet - now - set.horizon, fence)
end

attend()
if epoch ~= '0' and epoch ~= of and known ~= stored and flag('l') and now < quiet and mine.changed == set.changed then
  -- The node worked under other terms before the cooldown, and none is newer: what it used still counts.
  quiet = math.max(quiet, now + mine.horizon + mine.lateness + span(mine, set))
  began = math.max(began or 0, quiet)
  algorithm.begin(set, quiet)
  note('quiet', int(quiet))
  note('from', int(began))
  flush()
  local b = redis.call('HMGET', limit, 'base', 'n', 'slot', 'passed', 'start', 'keep', 'tat_ns')
  c.base, c.n, c.slot, c.passed = tonumber(b[1]), tonumber(b[2]), tonumber(b[3]), tonumber(b[4])
  c.start, c.keep, c.tat_ns = tonumber(b[5]), tonumber(b[6]), b[7]
end
if history_id ~= master then note('master', history_id) end

if epoch == '0' then -- a node that has just come
  local there = 0
  others(function() there = there + 1 end)
  -- One that has been here for longer would see a step of this clock; the newcomer waits for it.
  if there > 0 and now - last > SPARE then redis.pcall('PUBLISH', limit, 'poll') end
end
if flag('h') then redis.pcall('PUBLISH', limit, 'hello ' .. node) end

epoch, now = of, math.max(now, last)
if flag('r') and want > 0 then
  local f = {}
  for word in string.gmatch(redis.call('GET', booked) or '', '%S+') do f[#f + 1] = word end
  if f[1] == seq and f[2] == epoch then -- that reply was lost: the same slots, beside a fresh reading of the clock
    for i = 3, 9 do f[i] = tonumber(f[i]) end
    return reply(f[3], f[4], f[5], f[6], f[7], f[8], f[9], 0, 0)
  end
end

if under ~= stored then -- the settings have changed since the last reservation
  -- Slots of the old terms may be out for so long, which is longer than the new ones may say.
  began = math.max(algorithm.change(c, old, now, quiet) or began or 0, now + old.horizon + old.lateness)
  served, spare = queued, 0
  note('under', stored)
  note('from', int(began))
  note('served', int(served))
  note('spare', 0)
  redis.pcall('PUBLISH', limit, 'applied') -- whoever changed them may not be allowed to
end

if want == 0 then
  if ticket > served then -- it gives its place up: those behind it move on
    served = math.min(queued, served + 1)
    note('served', int(served))
  end
  note('last', int(now))
  return nothing(0, 0, nil, waiting and HOLD)
end
if waiting then return nothing(HOLD, 0, ticket) end
if set.paused == 1 then
  note('last', int(now))
  return nothing(set['until'] > 0 and math.min(POLL, set['until'] - now) or POLL)
end

-- Nodes that were refused come again in the order in which they were, each at its time; what those ahead want is left
-- to them. A place in the queue is the sum of what was wanted before it. Who comes at its time has let all before it pass.
local before = served
local due = flag('d') and ticket >= 0
if due then served = math.max(served, ticket) end
local ahead, poll = math.max(0, (ticket >= 0 and ticket or queued) - served), nil

c.reach = reach > 0 and math.min(c.horizon, reach) or c.horizon
local wait, given, first, nth, floor, units, period, debt = algorithm.take(c, now, want, lead, ahead, quiet)
if given == 0 and ahead > 0 and (algorithm.paced or spare > 0 and now - spare >= SPARE) then
  -- What could be taken for a while already, and those ahead did not come for, is anybody's.
  c.reach = c.reach - math.min(SPARE, math.floor(c.reach / 2))
  poll, given, first, nth, floor, units, period, debt = algorithm.take(c, now, 1, lead, 0, quiet)
  local apart = c.period / c.units
  if poll < SELDOM then poll = poll + math.ceil((SELDOM - poll) / apart) * apart end
  poll = poll > LATEST and POLL or math.ceil(poll)
  if wait <= LATEST then poll = wait end -- its own time is near enough
end
if given == 0 then
  if ticket < 0 and flag('w') and since > 0 and now - since >= SETTLED then
    ticket, queued = queued, queued + want
    note('queued', int(queued))
  end
  if ahead > 0 and spare == 0 then note('spare', int(now)) end
  if served ~= before then note('served', int(served)) end
  note('last', int(now))
  return nothing(wait, 0, ticket, poll)
end
if ticket >= 0 then served = math.max(served, math.min(queued, ticket + given)) end
if served ~= before then note('served', int(served)) end
if spare > 0 then note('spare', 0) end
note('last', int(now))
redis.call('SET', booked, table.concat({seq, epoch, int(given), int(first), int(nth), int(floor), int(units), int(period), int(debt)}, ' '),
  'PX', int(math.ceil((set.horizon + set.lateness) / 1000) + 1000))
return reply(given, first, nth, floor, units, period, debt, 0, 0)
