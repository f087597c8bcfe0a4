-- with master.lua
-- Give a node what it may use next of a limit. limit.lua and one of the algorithms are joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
-- KEYS[3] state   dispatcher:{<namespace>}:state:<name>          what the algorithm keeps beside the limit's hash
-- KEYS[4] booked  dispatcher:{<namespace>}:booked:<name>:<node>  string: what this node was given last
-- KEYS[5] turns   dispatcher:{<namespace>}:turns:<name>          hash: of a node that was refused, when it comes again and what it wants
-- KEYS[6] nodes   dispatcher:{<namespace>}:nodes:<name>          hash: of each node, the newest settings it knows and when it was here
--
-- ARGV[1] want       units wanted; 0 only looks, and gives the node's turn up
-- ARGV[2] seq        number of this booking; the same number again gets the same slots again
-- ARGV[3] epoch      the epoch that the node's mapping of this clock belongs to; 0: it has none
-- ARGV[4] stepped    1: the node saw this clock step within that epoch
-- ARGV[5] identity   info: ask INFO which master this is; none: this server can't tell
-- ARGV[6] lead_us    no slot is nearer than this
-- ARGV[7] node       its name, unique per start
-- ARGV[8] learn_us   after lost settings, the time in which every node has come by with newer ones
-- ARGV[9] reach_us   nothing further ahead is given to this node; 0: the horizon alone says
-- ARGV[10] waits     1: a node that is refused comes again in its turn; 0: it does not wait
-- ARGV[11] changed_us and behind it the newest settings that the node knows, for a Redis that knows older ones or none:
--                    in the order of NUMBERS, then of WORDS
--
-- Reply: 1 now_us  2 epoch  3 given  4 base_us  5 n  6 floor_us  7 units  8 period_us  9 debt
--        10 wait_us: until it is the node's turn to ask again
--        11 fence: 0 none, 1 settings lost, 2 settings older than the node's, 3 the algorithm's state lost,
--                  4 another master, 5 the clock went back, 6 the node saw it step, 7 another algorithm
--        12 quiet_us: nothing is given that lies before this
--        13..32 the settings in force, in the order of ARGV[11..30], where they are not those that the node knows
--        Slot j, from 0, lies at max(floor, base + ceil((n + j - debt) * period / units)).
--
-- Missing key: the node's settings are taken, and nothing is given until all that may be out is over.
local booked, turns, nodes = KEYS[4], KEYS[5], KEYS[6]
local want, seq, epoch, stepped = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4] == '1'
local identity, lead, node, learn = ARGV[5], tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local reach, waits = tonumber(ARGV[9]), ARGV[10] == '1'
local STEP = 2000 -- a clock that goes back by less is held
local GONE = 600000000 -- a node that was not here for this long
local GRACE = 100000 -- a node that is later than this for its turn has lost it

-- with_terms unpacks what terms_of packed.
local function with_terms(set, word)
  local i = 0
  for value in string.gmatch(word, '%d+') do
    i = i + 1
    set[TERMS[i]] = tonumber(value)
  end
  return set
end

local now, master = clock(), master_of(identity)
if not master then return redis.error_reply('IDENTITY this Redis does not say which master it is') end

local known = tonumber(ARGV[11])
local set, last, quiet, base, n, slot, other, of, by, applied, under =
  read('last', 'quiet', 'base', 'n', 'slot', 'master', 'epoch', 'algorithm', 'applied', 'under')
last, quiet = tonumber(last), tonumber(quiet)
redis.call('HSET', nodes, node, ARGV[11] .. ' ' .. int(now))
if epoch == '0' then -- a node that has just come sweeps out those that have gone
  local all = redis.call('HGETALL', nodes)
  for i = 1, #all, 2 do
    local seen = tonumber(string.match(all[i + 1], '%d+$'))
    if not seen or seen < now - GONE then redis.call('HDEL', nodes, all[i]) end
  end
end

local function with_line(c)
  c.base, c.n, c.slot = tonumber(base), tonumber(n), tonumber(slot)
  return c
end

local fence = 0
if not set then fence = 1
elseif known > set.changed then fence = 2
elseif not (last and quiet and other and of and under) then fence = 3
elseif by ~= algorithm.name then fence = 7
elseif not algorithm.whole(with_line(set), now) then fence = 3
elseif other ~= master then fence = 4
elseif now < last - STEP then fence = 5
elseif stepped and epoch == of then fence = 6 end

if fence == 1 or fence == 2 then
  set = parse({unpack(ARGV, 11)})
  write(set)
end
if set['until'] > 0 and now >= set['until'] then -- the override is over
  local before = terms_of(set)
  with_terms(set, set.was)
  set.changed, set.revision = math.max(now, set.changed + 1), set.revision + 1
  set['until'], set.was, set.by, set.why = 0, '', 'dispatcher', 'the override is over'
  write(set)
  record(set, before, rails_of(set))
end

-- tell adds the settings to a reply, where the node knows others. All are compared: those of a file all say that they
-- were never changed.
local function tell(r)
  local list, same = flat(set), true
  for i, value in ipairs(list) do same = same and value == ARGV[10 + i] end
  if same then return r end
  for i, value in ipairs(list) do r[#r + 1] = i > #NUMBERS and value or tonumber(value) end
  return r
end

local function reply(wait, given, first, nth, floor, units, period, debt)
  return tell({now, tonumber(epoch), given, first, nth, floor, units, period, debt, wait, fence, quiet})
end
local function nothing(wait) return reply(wait, 0, now, 0, now, 1, 1, 0) end

if fence > 0 then
  -- All slots that may be out lie within one horizon, are late after the lateness, and bind for as long as the
  -- algorithm says. Other nodes may have newer settings than these.
  quiet = now + set.horizon + set.lateness + algorithm.binds(set)
  if fence == 1 then quiet = math.max(quiet, now + learn) end
  if fence > 3 and fence < 7 and tonumber(applied) ~= set.changed then -- what is owed under other terms is paid by waiting
    local old = with_terms({}, under)
    set.from = now + old.horizon + old.lateness + math.max(old.window, set.window) + math.max(old.guard, set.guard)
    quiet = math.max(quiet, set.from)
  end
  quiet = math.max(quiet, math.min(set.from, now + set.window + set.guard))
  epoch = int(now)
  redis.call('DEL', KEYS[3], booked, turns)
  algorithm.begin(set, quiet)
  redis.call('HSET', limit, 'last', int(now), 'master', master, 'epoch', epoch, 'quiet', int(quiet), 'algorithm', algorithm.name,
    'applied', int(set.changed), 'under', terms_of(set), 'from', int(set.from))
  redis.pcall('PUBLISH', limit, epoch) -- each node is to look now, and to bring what it knows
  return nothing(quiet - now - set.horizon)
end

epoch, now = of, math.max(now, last)
local kept = want > 0 and redis.call('GET', booked)
if kept then
  local f = {}
  for word in string.gmatch(kept, '%S+') do f[#f + 1] = word end
  if f[1] == seq and f[2] == epoch then -- that reply was lost: the same slots, beside a fresh reading of the clock
    for i = 3, 9 do f[i] = tonumber(f[i]) end
    return reply(0, unpack(f, 3, 9))
  end
end
redis.call('HSET', limit, 'last', int(now))
if tonumber(applied) ~= set.changed then -- the settings have changed since the last booking
  local old = with_terms({}, under)
  -- Slots of the old terms may be out for so long, which is longer than the new ones may say.
  set.from = math.max(algorithm.change(set, old, now, quiet) or set.from, now + old.horizon + old.lateness)
  redis.call('HSET', limit, 'applied', int(set.changed), 'under', terms_of(set), 'from', int(set.from))
  redis.call('DEL', turns)
end
if want == 0 then
  redis.call('HDEL', turns, node)
  return nothing(0)
end
if set.paused == 1 then return nothing(set.horizon) end

-- Nodes that were refused come again in the order in which they were; what those ahead want is left to them.
local ahead, queue, mine = 0, redis.call('HGETALL', turns), math.huge
for i = 1, #queue, 2 do
  local due, units = string.match(queue[i + 1], '(%d+) (%d+)')
  queue[i + 1] = {tonumber(due), tonumber(units)}
  if queue[i] == node then mine = queue[i + 1][1] end
end
for i = 1, #queue, 2 do
  local due = queue[i + 1][1]
  if due < now - GRACE then redis.call('HDEL', turns, queue[i])
  elseif due < mine and queue[i] ~= node then ahead = ahead + queue[i + 1][2] end
end

set.reach = reach > 0 and math.min(set.horizon, reach) or set.horizon
local wait, given, first, nth, floor, units, period, debt = algorithm.take(set, now, want, lead, ahead, quiet)
if given == 0 then
  if waits then redis.call('HSET', turns, node, int(now + wait) .. ' ' .. int(want)) end
  return nothing(wait)
end
if mine < math.huge then redis.call('HDEL', turns, node) end
redis.call('SET', booked, table.concat({seq, epoch, int(given), int(first), int(nth), int(floor), int(units), int(period), int(debt)}, ' '),
  'PX', int(math.ceil((set.horizon + set.lateness) / 1000) + 1000))
return reply(0, given, first, nth, floor, units, period, debt)
