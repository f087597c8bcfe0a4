-- Which jobs get slots, where these may go to any of them: see jobs.lua. A slot goes to the first job that every gate allows
-- at that time and that finds enough units free. A slot that no gate lets a job have is skipped, where the algorithm can grant it
-- later. Else it ends the block.
local jobs, owner = {}, {} -- jobs: units, and units by state; of each state, its gate
local free = {} -- of each state, the earliest time of the next job; of a quota, the units that this call takes
local NOTICE = 5000 -- units that are granted for now are used so much later: a node needs time to prepare a call
local soon = algorithm.notice and now + NOTICE or now
local picking = {} -- functions
local states = {known = {}} -- functions; and from when on quotas allow units, as far as that was asked
local insists = false -- the node earmarks units for its first job, so none is to pass it: see reserve.lua

-- keep keeps a state until it says nothing any more, also to larger jobs, and returns it.
function states.keep(i, slot, units, max_cost)
  local gate = owner[i]
  local left = slot + math.max(gap(gate, units), gate.window + widest) - now
  local text = int(slot) .. ' ' .. int(units) .. ' ' .. (max_cost or int(gate.max_cost))
  redis.call('SET', KEYS[6 + 4 * GATES + i], text, 'PX', int(math.max(1, math.ceil(left / 1000) + 1000)))
  return text
end

-- free_after is when the next job may go behind the last grant that a state holds.
function states.free_after(gate, state)
  local slot, units, max_cost = string.match(state or '', '^(%d+) (%d+) (%d+)$')
  return math.max(gate.from, slot and next_after(gate, tonumber(slot), tonumber(units), tonumber(max_cost)) or 0)
end

-- correct_quota gives units of a slot back, or charges them where they are negative, and returns the state with that.
function states.correct_quota(i, state, slot, units)
  local tally = quotas.read_counts(owner[i], state)
  if units < 0 then quotas.add_units(owner[i], tally, math.min(-units, owner[i].cap), slot)
  elseif not quotas.take_back(owner[i], tally, units, slot) then return state end
  quotas.write_counts(owner[i], KEYS[6 + 4 * GATES + i], tally)
  return quotas.written_counts(tally)
end

-- correct does the same of a last grant. Of a slot that is not the last one nothing is given back: somebody relies on it. A
-- charge counts with the last one, for three windows at most. Where no unit of the last one is left, the next job may go at its
-- slot, and no sooner: what was granted before is not known.
function states.correct(i, state, slot, units)
  if owner[i].quota then return states.correct_quota(i, state, slot, units) end
  local newest_slot, count, max_cost = string.match(state or '', '^(%d+) (%d+) (%d+)$')
  if not newest_slot then return state end
  newest_slot, count = tonumber(newest_slot), tonumber(count)
  if units > 0 and (newest_slot ~= slot or units > count) then return state end
  local most = 3 * (owner[i].cap - owner[i].max_cost + 1)
  return states.keep(i, newest_slot, math.max(count - math.max(units, 0), math.min(count - units, most)), max_cost)
end

-- terms_of is a gate with the cap that holds for the value of a state: that of an exception, or the gate's own.
function states.terms_of(gate, key)
  if not gate.exceptions then return gate end
  local _, found = string.find(gate.exceptions, string.sub(key, -32) .. '=', 1, true)
  if not found then return gate end
  local cap, till = string.match(gate.exceptions, '^(%d+)@?(%d*)', found + 1)
  if till ~= '' and now >= tonumber(till) then return gate end
  return setmetatable({cap = tonumber(cap)}, {__index = gate})
end

function states.read()
  for word in string.gmatch(ARGV[21 + 4 * GATES], '%d+') do
    owner[#owner + 1] = states.terms_of(gates[tonumber(word)], KEYS[7 + 4 * GATES + #owner])
  end
  if #owner == 0 then return end
  local values = redis.call('MGET', unpack(KEYS, 7 + 4 * GATES))
  for word, slot, units in string.gmatch(ARGV[23 + 4 * GATES], '(%d+):(%d+):(-?%d+)') do
    local i = tonumber(word)
    values[i] = states.correct(i, values[i], tonumber(slot), tonumber(units))
  end
  for i, gate in ipairs(owner) do
    if gate.quota then free[i], tallies[i] = 0, quotas.read_counts(gate, values[i]) else free[i] = states.free_after(gate, values[i]) end
  end
end

-- correct_timeline has the algorithm take back what was not used, and charges what is owed: units that the provider counted beside those
-- of a slot. As many as may be reserved are granted to nobody, ahead of all jobs; the rest stays owed, also over a cooldown.
-- It is forgotten two windows after the last of it: the provider counts those calls no more.
function states.correct_timeline()
  local back, text = {}, v[18] or '0 0'
  if ARGV[19] == '' and text == '0 0' then return end
  local owed, at = string.match(text, '^(%d+) (%d+)$')
  owed, at = tonumber(owed), tonumber(at)
  for slot, units in string.gmatch(ARGV[19], '(%d+):(-?%d+)') do
    units = tonumber(units)
    if units > 0 then back[#back + 1] = {slot = tonumber(slot), units = units}
    else owed, at = math.min(owed - units, 2 * set.cap), now end
  end
  if algorithm.back and #back > 0 then algorithm.back(c, now, back) end
  if now - at > 2 * (set.window + set.guard) then owed = 0 end
  if owed > 0 and not set.paused and not waits then
    local all_costs, all_chooses = costs, CHOOSES
    costs, CHOOSES, c.reach = '', false, c.horizon
    local slots = algorithm.take(c, AHEAD and now or soon, owed, nearest, 0, not_before)
    costs, CHOOSES = all_costs, all_chooses
    if slots then
      owed = owed - slots.given
      flush()
      timeline(c, redis.call('HMGET', limit, unpack(algorithm.fields)), 0)
    end
  end
  local left = int(owed) .. ' ' .. int(owed > 0 and at or 0)
  if left ~= text then note('owed', left) end
end

local function read_jobs()
  for word in string.gmatch(costs, '%d+') do jobs[#jobs + 1] = {number = #jobs + 1, units = tonumber(word), states = {}} end
  if GATES == 0 then return end
  local nth = 0
  for word in string.gmatch(ARGV[22 + 4 * GATES], '%S+') do
    nth = nth + 1
    local job = jobs[nth] or {number = nth, units = 1, states = {}}
    for i, units in string.gmatch(word, '(%d+):(%d+)') do job.states[tonumber(i)] = tonumber(units) end
    jobs[nth] = job
  end
end

-- time_of is from when on a state allows so many units more.
function states.time_of(i, units, times)
  local gate = owner[i]
  if units > gate.max_cost then return math.huge end
  if not gate.quota then return times[i] end
  local asked = i .. ' ' .. int(times[i] + units)
  states.known[asked] = states.known[asked] or math.max(gate.from, quotas.room_at(gate, tallies[i], times[i] + units, soon))
  return states.known[asked]
end

-- allowed_at returns from when on all gates allow a job, and the gate that allows it last.
local function allowed_at(job, times)
  local at, slowest = 0, nil
  for i, units in pairs(job.states) do
    local t = states.time_of(i, units, times)
    if t > at then at, slowest = t, owner[i] end
  end
  return at, slowest
end

-- A plan holds what the states are once jobs have passed: times, as free is. Once slots are skipped, all jobs are looked at for
-- each of them. Then it also holds at, from when on all gates allow a job, as far as that was asked; and users, of each state,
-- the jobs that pass it.
local now_free = {times = free} -- before any job has passed

function picking.remember(plan)
  plan.at, plan.users = {}, {}
  for i in ipairs(free) do plan.users[i] = {} end
  for _, job in ipairs(jobs) do
    for i in pairs(job.states) do plan.users[i][#plan.users[i] + 1] = job end
  end
end

function picking.at(job, plan)
  local at = plan.at and plan.at[job] or allowed_at(job, plan.times)
  if plan.at then plan.at[job] = at end
  return at
end

function picking.pass(job, plan, slot)
  for i, units in pairs(job.states) do
    plan.times[i] = owner[i].quota and plan.times[i] + units or slot + gap(owner[i], units)
    for _, other in ipairs(plan.users and plan.users[i] or {}) do plan.at[other] = nil end
  end
end

-- may_go tells whether a job may have a slot as far as its size and its gates say.
function picking.may_go(job, plan, slot)
  if job.units > c.max_cost or picking.at(job, plan) > slot then return false end
  for i, units in pairs(job.states) do
    if owner[i].quota and not quotas.has_room(owner[i], tallies[i], plan.times[i] + units, slot) then return false end
  end
  return true
end

-- first_allowed returns the first job that gets its units as soon as they are free.
local function first_allowed()
  for _, job in ipairs(jobs) do
    if picking.may_go(job, now_free, soon) then return job end
  end
end

smallest = function()
  local first, least = first_allowed(), math.huge
  if insists or not first then return first and first.units or 1 end
  for _, job in ipairs(jobs) do
    if picking.may_go(job, now_free, soon) then least = math.min(least, job.units) end
  end
  return least
end

-- next_job returns which of the pending jobs gets a slot, where so many units are left; else whether only gates keep one
-- from it. single: only a job of one unit may have it. alone: no job may pass the first one.
function picking.next_job(pending, plan, slot, left, single, alone)
  local barred = false
  for k, job in ipairs(pending) do
    local may = picking.may_go(job, plan, slot)
    local fits = (AHEAD and 1 or job.units) <= left and not (single and job.units > 1)
    if may and fits then return k end
    if may and alone then return nil, false end
    barred = barred or fits
  end
  return nil, barred
end

-- first_at returns the first slot of an offer from k on that is not before a time.
function picking.first_at(offer, k, time)
  local above = offer.free
  while k < above do
    local middle = math.floor((k + above) / 2)
    if offer.at(middle) >= time then above = middle else k = middle + 1 end
  end
  return k
end

-- skip returns the first slot behind slot k that the gates let some pending job have.
function picking.skip(offer, k, pending, plan)
  if not plan.at then picking.remember(plan) end
  local single, any = math.huge, math.huge -- from when on such a slot may be granted
  for _, job in ipairs(pending) do
    local at = picking.at(job, plan)
    if job.units == 1 then single = math.min(single, at) else any = math.min(any, at) end
  end
  return math.min(picking.first_at(offer, k + 1, single), picking.first_at(offer, math.max(k + 1, offer.singles), any))
end

-- pick returns jobs for the slots of an offer, which count as many units as are wanted, or fewer; what they count; and whether
-- a slot was left that no gate lets a job have. The first of such slots ends the block, unless it can be skipped.
local function pick(offer, most)
  local picked, used, pending, plan, k = {}, 0, {}, {times = {}}, 0
  local shut, lacked = false, false -- a gate allows some job at none of the slots; no gate keeps a job from some slot, but its size
  for i, t in ipairs(free) do plan.times[i] = t end
  local latest = offer.at(offer.free)
  for _, job in ipairs(jobs) do
    if picking.at(job, plan) <= latest then pending[#pending + 1] = job else shut = true end
  end
  while k < offer.free and used < most and #picked < most_jobs and (#pending > 0 or shut and not offer.skips) do
    local slot = offer.at(k)
    local i, only_gates = picking.next_job(pending, plan, slot, offer.free - k, k < offer.singles, insists and #picked == 0)
    if i then
      local job = table.remove(pending, i)
      job.slot, job.index = slot, k
      picking.pass(job, plan, slot)
      picked[#picked + 1], used, k = job, used + job.units, k + job.units
    elseif not offer.skips then return picked, used, only_gates or shut
    else
      lacked, k = lacked or not only_gates, picking.skip(offer, k, pending, plan)
    end
  end
  return picked, used, offer.skips and #picked == 0 and not lacked
end

-- want_these makes the algorithm see these jobs and no others.
local function want_these(list)
  local words, units = {}, 0
  for i, job in ipairs(list) do words[i], units = int(job.units), units + job.units end
  costs = units > #list and table.concat(words, ' ') or ''
  first_cost = list[1] and list[1].units or 1
end

local chosen, barred = {}, false -- the jobs of the last take, and whether a slot was left that no gate lets a job have

-- choose picks jobs for units that are granted for now, and returns what they count.
choose = function(units, most)
  local used
  chosen, used, barred = pick({free = units, singles = 0, at = function() return soon end}, most)
  want_these(chosen)
  for _, job in ipairs(chosen) do job.picked = true end
  return used
end

-- take asks the algorithm for slots.
local function take(units, others_first)
  if not (CHOOSES and AHEAD) then
    local slots, wait = algorithm.take(c, soon, units, nearest, others_first, not_before)
    if not slots then chosen = {} end
    return slots, wait
  end
  costs, first_cost = '', 1
  local offer = algorithm.offer(c, now, units, nearest, others_first)
  if offer.free == 0 then return nil, offer.wait end
  local used
  chosen, used, barred = pick(offer, units)
  want_these(chosen)
  if #chosen == 0 then return nil, barred and 0 or offer.wait end
  algorithm.grant(c, offer, chosen)
  return {given = used}
end

-- charge writes the states of the jobs that got slots, and returns which slot each got.
local function charge()
  local words, touched = {}, {}
  for k, job in ipairs(chosen) do
    for i, units in pairs(job.states) do
      if owner[i].quota then
        quotas.add_units(owner[i], tallies[i], units, job.slot)
        touched[i] = true
      else
        states.keep(i, job.slot, units)
        free[i] = job.slot + gap(owner[i], units)
      end
    end
    job.granted = true
    words[k] = int(job.number) .. ':' .. int(job.slot - now)
  end
  states.known = {}
  for i in pairs(touched) do quotas.write_counts(owner[i], KEYS[6 + 4 * GATES + i], tallies[i]) end
  return table.concat(words, ' ')
end

-- refusals are the jobs that a gate does not allow soon.
local function refusals()
  local most, list = AHEAD and not barred and now + (c.reach or 0) or soon, {}
  for _, job in ipairs(jobs) do
    local at, gate = allowed_at(job, free)
    if not job.granted and gate and at > most then
      local most_ahead = gate.quota and at < math.huge and at or now + POLL -- a quota's window may be over in a month
      list[#list + 1] = job.number .. ':' .. gate.number .. ':' .. int(math.min(at, most_ahead))
    end
  end
  return table.concat(list, ' ')
end
