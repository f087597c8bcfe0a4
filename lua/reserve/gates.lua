-- Gates: the limits of a job beside the first one. A gate has a key, and grants at most cap units in any window for each
-- value of it. A value's state is its last grant, "slot_us units max_cost", with the max_cost of then. The next job may go
-- gap(units) behind it, so units are at least (window + guard) / (cap - max_cost + 1) apart. That follows from the settings in
-- force, whatever they were before. But where max_cost has grown, units of before lie closer: the next job keeps
-- gap(max_cost) from them, or a whole window.
--
-- A state belongs to an epoch, which is part of its key. What was granted in the epoch before is not known, so for one
-- window after an epoch's begin a gate grants nothing. A state without a value is idle.
--
-- KEYS[4 + 3g], of gate g from 1: its limit; KEYS[5 + 3g]: its history; KEYS[6 + 3g]: its nodes
-- KEYS[6 + 3G + i]    state i: dispatcher:{<namespace>}:gate:<name>:<epoch>:<hash>  string
--
-- ARGV[20] G          how many gates the node knows; 0: nothing of this file happens
-- ARGV[19 + 2g]       the newest settings of gate g that the node knows, packed
-- ARGV[20 + 2g]       its name, for errors
-- ARGV[21 + 2G]       the gate of each state: numbers
-- ARGV[22 + 2G]       the states of each job, and what it counts there: "1:1,3:2" or "-" for none
-- ARGV[23 + 2G]       slots that were not used: "state:slot_us:units". A gate that was not passed since then forgets them.
--
-- Reply, behind the settings in force, which are '' where the node knows them, and also without gates where slots may go to
-- any of the jobs:
--        18 the jobs that are granted slots, in the order of these: numbers from 1
--        19 the jobs that a gate refuses: "job:gate:time_us"; they are to be asked for again at that time
--        20 the settings of each gate, '' where the node knows them
local GATES = tonumber(ARGV[20])
local widest = widest_of(math.max(set.guard, old.guard))
local stale = epoch ~= current -- the states that the node names are of an epoch before
for g = 1, GATES do
  local key, known_text = KEYS[4 + 3 * g], ARGV[19 + 2 * g]
  local held = redis.call('HMGET', key, 'settings', 'not_before')
  local text, from = held[1], tonumber(held[2] or 0)
  local gate, mine = unpacked(text), unpacked(known_text)
  if text and not gate or not mine then
    return redis.error_reply('VERSION the settings of the limit ' .. ARGV[20 + 2 * g] .. ' are of a version that this node does not know')
  end
  if gate and not gate.gate then
    return redis.error_reply('VERSION ' .. ARGV[20 + 2 * g] .. ' is the first limit of other nodes; give one of them another name')
  end
  if not gate or mine.changed > gate.changed then -- lost, or older than what the node knows
    text, gate = known_text, mine
    from = math.max(from, now + HORIZON + 2 * widest + gate.window) -- `limit delete` leaves a time behind
    redis.call('HSET', key, 'settings', text, 'not_before', int(from))
    redis.call('PERSIST', key)
  elseif gate.revert_at > 0 and now >= gate.revert_at then -- the override has ended
    text, gate = ended(text, gate, key, KEYS[5 + 3 * g])
  end
  if flag('x') then redis.call('HDEL', KEYS[6 + 3 * g], node)
  elseif want == 0 or flag('p') then
    redis.call('HSET', KEYS[6 + 3 * g], node, int(mine.changed) .. ' ' .. int(now) .. ' ' .. int(since))
  end
  gate.number = g
  gate.from = math.max(from, tonumber(current) + HORIZON + 2 * widest + gate.window)
  if gate.paused then gate.from = now + (gate.revert_at > 0 and math.min(POLL, gate.revert_at - now) or POLL) + HORIZON end
  gates[g], gate_texts[g] = gate, text ~= known_text and text or ''
end

-- gap is how long after a slot with so many units the next one may follow.
local function gap(gate, units) return math.ceil(units * (gate.window + widest) / (gate.cap - gate.max_cost + 1)) end

-- next_after is when the next job may go behind a grant of so many units.
local function next_after(gate, slot, units, max_cost)
  local at = slot + gap(gate, units)
  if max_cost >= gate.max_cost then return at end
  return math.max(at, slot + math.min(gap(gate, units + gate.max_cost), gate.window + widest))
end
