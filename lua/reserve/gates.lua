-- Gates: the limits of a job after the first. A gate has a key, and grants at most cap units in any window for each
-- value of it. A value's state is its last grant, "slot_us units max_cost", with the max_cost of then, and behind it the end of a
-- block, if the provider refused a job for that value: "slot_us units max_cost till_us". The next job may go
-- gap(units) behind it, so units are at least (window + guard) / (cap - max_cost + 1) apart. That follows from the settings in
-- force, whatever they were before. But where max_cost has grown, units of before lie closer: the next job keeps
-- gap(max_cost) from them, or a whole window.
--
-- A state belongs to an epoch, which is part of its key. What was granted in the epoch before is not known, so a gate
-- grants nothing for the longest horizon, two guards and its window after an epoch's begin. A state without a value is idle.
--
-- KEYS[3 + 4g], of gate g from 1: its limit; KEYS[4 + 4g]: its history; KEYS[5 + 4g]: its nodes
--                     in its limit's hash: opens, "from_us lost_us": from when on it grants units; and with which epoch Redis
--                     lost the counts of a quota that waits for that, 0: it does not
-- KEYS[6 + 4g]        of a quota: the state of all jobs together; see quotas.lua
-- KEYS[6 + 4G + i]    state i: dispatcher:{<namespace>}:gate:<name>:<epoch>:<hash>  string
--                     of a quota: dispatcher:{<namespace>}:quota:<name>:<kind>:<hash>  string
--
-- ARGV[20] G          how many gates the node knows; 0: nothing of this file happens
-- ARGV[17 + 4g]       the newest settings of gate g that the node knows, packed
-- ARGV[18 + 4g]       its name, for errors
-- ARGV[19 + 4g]       of a calendar quota: when the windows around now begin and end, µs, rising
-- ARGV[20 + 4g]       of a quota without a key: "- state", what the node remembers; else empty
-- ARGV[21 + 4G]       the gate of each state: numbers
-- ARGV[22 + 4G]       the states of each job, and what it counts there: "1:1,3:2" or "-" for none
-- ARGV[23 + 4G]       corrections of states: "state:slot_us:units", given back or, negative, charged. A gate that was passed
--                     since then gives nothing back, but a quota does. And blocks: "state:till_us:block".
--
-- Reply, behind the settings in force, which are '' where the node knows them, and also without gates where slots may go to
-- any of the jobs:
--        19 the jobs that are granted slots, in the order of these: "job:us", a number from 1, and how long after now the slot is
--        20 the jobs that a gate refuses: "job:gate:time_us"; they are to be asked for again at that time
--        21 the settings of each gate, '' where the node knows them; and behind them the state of each quota without a key,
--           and "from_us lost_us" of one with a key that waits since Redis lost its counts
local GATES = tonumber(ARGV[20])
local widest = GATES > 0 and widest_of(math.max(set.guard, old.guard))
local stale = epoch ~= current -- the states that the node names are of an epoch before
local lost_at = (stale or GATES > 0) and tonumber(seldom('lost') or 0) -- the epoch with which states were lost: see quotas.lua
if stale and epoch ~= '0' and seldom('may_be_lost') == current and lost_at ~= tonumber(current) then -- the limit is not new
  lost_at = tonumber(current)
  note('lost', current)
end

local gap, next_after

if GATES > 0 then -- a call without gates does not make these functions
  -- gap is how long after a slot with so many units the next one may follow.
  function gap(gate, units) return math.ceil(units * (gate.window + widest) / (gate.cap - gate.max_cost + 1)) end

  -- next_after is when the next job may go behind a grant of so many units.
  function next_after(gate, slot, units, max_cost)
    local at = slot + gap(gate, units)
    if max_cost >= gate.max_cost then return at end
    return math.max(at, slot + math.min(gap(gate, units + gate.max_cost), gate.window + widest))
  end
end
