-- Which jobs get slots, where these may go to any of them: see jobs.lua. Each job takes the first slots that all its gates and
-- its size allow. Slots that no job takes are skipped, where the algorithm can grant them later. Else the first one ends the block.
local jobs, owner = {}, {} -- jobs: units, and units by state; of each state, its gate
local free = {} -- of each state, the earliest time of the next job; of a quota, the units that this call takes
local NOTICE = 5000 -- units that are granted for now are used so much later: a node needs time to prepare a call
local soon = algorithm.notice and now + NOTICE or now
local picking = {} -- functions
local states = { -- functions
  known = {}, -- from when on quotas allow units, as far as that was asked
  BLOCK = 600000000, -- no block of a value is longer
}
local insists = false -- the node earmarks units for its first job, so none is to pass it: see reserve.lua

if GATES > 0 then -- a call without gates does not make these functions
  -- last reads a state: slot, units and max_cost of the last grant, and the end of a block, 0: there is none.
  function states.last(state)
    local slot, units, max_cost, till = string.match(state or '', '^(%d+) (%d+) (%d+) ?(%d*)$')
    return tonumber(slot), tonumber(units), tonumber(max_cost), tonumber(till) or 0
  end

  -- keep keeps a state until it says nothing any more, also to larger jobs, and returns it.
  function states.keep(i, slot, units, max_cost, till)
    local gate = owner[i]
    local text = int(slot) .. ' ' .. int(units) .. ' ' .. int(max_cost or gate.max_cost)
    local ends = slot + math.max(gap(gate, units), gate.window + widest)
    if till and till > now then text, ends = text .. ' ' .. int(till), math.max(ends, till) end
    redis.call('SET', KEYS[6 + 4 * GATES + i], text, 'PX', int(math.max(1, math.ceil((ends - now) / 1000) + 1000)))
    return text
  end

  -- free_after is when the next job may go behind the last grant that a state holds, and behind a block.
  function states.free_after(gate, state)
    local slot, units, max_cost, till = states.last(state)
    return math.max(gate.from, till, slot and next_after(gate, slot, units, max_cost) or 0)
  end

  -- block lets no job pass before a time: the provider refused one for this value. Quotas have no blocks.
  function states.block(i, state, till)
    local slot, units, max_cost, before = states.last(state)
    till = math.min(till, now + states.BLOCK)
    if owner[i].quota or till <= math.max(now, before) then return state end
    return states.keep(i, slot or 0, units or 1, max_cost, till)
  end

  -- correct_quota gives units of a slot back, or charges them where they are negative, and returns the state with that.
  function states.correct_quota(i, state, slot, units)
    local tally = quotas.read_counts(owner[i], state)
    if units < 0 then quotas.add_units(owner[i], tally, math.min(-units, owner[i].cap), slot)
    elseif not quotas.take_back(owner[i], tally, units, slot) then return state end
    quotas.write_counts(owner[i], KEYS[6 + 4 * GATES + i], tally)
    return quotas.written_counts(owner[i], tally)
  end

  -- correct does the same of a last grant. Of a slot that is not the last one nothing is given back: somebody relies on it. A
  -- charge counts with the last one, for three windows at most. Where no unit of the last one is left, the next job may go at its
  -- slot, and no sooner: what was granted before is not known.
  function states.correct(i, state, slot, units)
    if owner[i].quota then return states.correct_quota(i, state, slot, units) end
    local newest_slot, count, max_cost, till = states.last(state)
    if not newest_slot then return state end
    if units > 0 and (newest_slot ~= slot or units > count) then return state end
    local most = 3 * (owner[i].cap - owner[i].max_cost + 1)
    return states.keep(i, newest_slot, math.max(count - math.max(units, 0), math.min(count - units, most)), max_cost, till)
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
    for word, slot, units in string.gmatch(ARGV[23 + 4 * GATES], '(%d+):(%d+):(%S+)') do
      local i = tonumber(word)
      if units == 'block' then values[i] = states.block(i, values[i], tonumber(slot))
      else values[i] = states.correct(i, values[i], tonumber(slot), tonumber(units)) end
    end
    for i, gate in ipairs(owner) do
      if gate.quota then
        local ahead
        free[i] = 0
        tallies[i], ahead = quotas.read_counts(gate, values[i])
        if ahead then quotas.write_counts(gate, KEYS[6 + 4 * GATES + i], tallies[i]) end
      else free[i] = states.free_after(gate, values[i]) end
    end
  end

  -- time_of is from when on a state allows so many units more.
  function states.time_of(i, units, times)
    local gate = owner[i]
    if units > gate.max_cost then return math.huge end
    if not gate.quota then return times[i] end
    local asked = i .. ' ' .. string.format('%.0f', times[i] + units) -- may be infinite
    states.known[asked] = states.known[asked] or math.max(gate.from, quotas.room_at(gate, tallies[i], times[i] + units, soon))
    return states.known[asked]
  end
end

-- correct_timeline has the algorithm take back what was not used, and charges what is owed: units that the provider counted beside those
-- of a slot. As many as may be reserved are granted to nobody, ahead of all jobs; the rest stays owed, also over a cooldown.
-- It is forgotten two windows after the last of it: the provider counts those calls no more.
function states.correct_timeline()
  local back, text = {}, v[11] or '0 0'
  if ARGV[19] == '' and text == '0 0' then return end
  local owed, at = string.match(text, '^(%d+) (%d+)$')
  owed, at = tonumber(owed), tonumber(at)
  for slot, units in string.gmatch(ARGV[19], '(%d+):(-?%d+)') do
    units = tonumber(units)
    if units > 0 then back[#back + 1] = {slot = tonumber(slot), units = units}
    else owed, at = owed - units, now end
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

local chosen, barred = {}, false -- the jobs of the last take, and whether only gates keep all jobs out
local no_slot -- from when on no slot is left

if CHOOSES then -- a call whose jobs are all alike does not make these functions
  function picking.read_jobs()
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

  -- allowed_at returns from when on all gates allow a job, and the gate that allows it last.
  function picking.allowed_at(job, times)
    local at, slowest = 0, nil
    for i, units in pairs(job.states) do
      local t = states.time_of(i, units, times)
      if t > at then at, slowest = t, owner[i] end
    end
    return at, slowest
  end

  -- first_allowed returns the first job that may have a slot, as far as its size and its gates say.
  function picking.first_allowed(slot)
    for _, job in ipairs(jobs) do
      if picking.may_go(job, free, slot) then return job end
    end
  end

  smallest = function()
    local first, least = picking.first_allowed(soon), math.huge
    if insists or not first then return first and first.units or 1 end
    for _, job in ipairs(jobs) do
      if picking.may_go(job, free, soon) then least = math.min(least, job.units) end
    end
    return least
  end

  -- An offer holds what the algorithm may grant: runs of slots, {from, to, before}, in order. A job takes as many slots of one
  -- run as it counts, from one below before on. at(m) is when slot m lies, first_at(time) the first slot that is not before a
  -- time. skips: slots may be left out. The last run lies behind all slots that were granted.
  -- quotas_allow tells whether a job's quotas have room at a slot.
  function picking.quotas_allow(job, times, slot)
    for i, units in pairs(job.states) do
      if owner[i].quota and not quotas.has_room(owner[i], tallies[i], times[i] + units, slot) then return false end
    end
    return true
  end

  -- may_go tells whether a job may have a slot as far as its size and its gates say.
  function picking.may_go(job, times, slot)
    return job.units <= c.max_cost and picking.allowed_at(job, times) <= slot and picking.quotas_allow(job, times, slot)
  end

  -- find returns the first run that has slots for a job from slot m on, and which slot is its first.
  function picking.find(runs, m, units)
    for i, some in ipairs(runs) do
      local from = math.max(some.from, m)
      if from < some.before and from + units <= some.to then return i, from end
    end
  end

  -- occupy takes slots out of a run.
  function picking.occupy(runs, i, from, units)
    local some, behind = table.remove(runs, i), from + units
    if behind < some.before then table.insert(runs, i, {from = behind, to = some.to, before = some.before}) end
    if some.from < from then table.insert(runs, i, {from = some.from, to = from, before = from}) end
  end

  -- pass moves the states of a job on behind its slot. Where it got none, no job of the same values passes it.
  function picking.pass(job, times)
    for i, units in pairs(job.states) do
      if not job.slot then times[i] = math.huge
      else times[i] = owner[i].quota and times[i] + units or job.slot + gap(owner[i], units) end
    end
  end

  -- try gives a job the first slots that its gates and its size allow. It returns whether only too few slots keep it from some.
  -- Where no slot may be left out, those are the ones behind the job before.
  function picking.try(offer, plan, job)
    local at = job.units <= c.max_cost and picking.allowed_at(job, plan.times) or math.huge
    job.slot = nil
    if at > plan.latest then return false end
    local i, from = picking.find(plan.runs, offer.first_at(at), job.units)
    if i and from > plan.front and not offer.skips then return false end
    if i then
      job.first, job.slot = from, offer.at(from)
      if not picking.quotas_allow(job, plan.times, job.slot) then
        job.slot = nil
        return true
      end
      picking.occupy(plan.runs, i, from, job.units)
      plan.placed[#plan.placed + 1] = job
      plan.used, plan.front, plan.farthest = plan.used + job.units, from + job.units, math.max(plan.farthest, from)
    end
    if i or AHEAD then picking.pass(job, plan.times) end -- units for now that are too few for a job are filled with smaller ones
    return not i
  end

  -- place gives slots to the first job that no gate holds up, and then to all others in turn, until the slots in front are taken
  -- and count as much as is wanted. It returns the jobs that have some, that first job, and whether a job found too few.
  function picking.place(offer, most)
    local earliest, latest = picking.bounds(offer)
    local plan = {runs = {}, times = {}, placed = {}, used = 0, front = offer.runs[1].from, farthest = -math.huge, latest = latest}
    for i, some in ipairs(offer.runs) do plan.runs[i] = some end
    for i, t in ipairs(free) do plan.times[i] = t end
    local first, lacked = picking.first_allowed(earliest), false
    if first then lacked = picking.try(offer, plan, first) end
    for _, job in ipairs(jobs) do
      if (plan.used >= most or #plan.placed >= most_jobs) and not (plan.runs[1] and plan.runs[1].from < plan.farthest) then break end
      if job ~= first then lacked = picking.try(offer, plan, job) or lacked end
    end
    return plan.placed, first, lacked
  end

  -- bounds returns when the first and the last slot of an offer lie in which a job may begin.
  function picking.bounds(offer)
    local runs = offer.runs
    return offer.at(runs[1].from), offer.at(runs[#runs].before - 1)
  end

  -- pick returns jobs for the slots of an offer, in the order of these, until they count as many units as are wanted; what they
  -- count; whether only gates keep all jobs out; and from when on no slot is left. The first job that no gate holds up is not
  -- passed over: where it finds too few slots, and others are not to fill them, no job gets any.
  function picking.pick(offer, most)
    if #offer.runs == 0 then return {}, 0, false end
    local placed, first, lacked = picking.place(offer, most)
    local _, latest = picking.bounds(offer)
    if first and not first.slot and (AHEAD or insists) then return {}, 0, false, latest end
    table.sort(placed, function(a, b) return a.first < b.first end)
    local picked, used, kept = {}, 0, first and first.slot and first -- its units are kept for it
    for _, job in ipairs(placed) do
      local fits = used + (kept and kept.units or 0) < most and #picked + (kept and 1 or 0) < most_jobs
      if job == kept or fits then picked[#picked + 1], used = job, used + job.units end
      if job == kept then kept = nil end
    end
    if not offer.skips then
      local end_of = picked[#picked]
      latest = offer.at(end_of and end_of.first + end_of.units or offer.runs[1].from)
    end
    return picked, used, #picked == 0 and not lacked, latest
  end

  -- want_these makes the algorithm see these jobs and no others.
  function picking.want_these(list)
    local words, units = {}, 0
    for i, job in ipairs(list) do words[i], units = int(job.units), units + job.units end
    costs = units > #list and table.concat(words, ' ') or ''
    first_cost = list[1] and list[1].units or 1
  end

  -- choose picks jobs for units that are granted for now, and returns what they count.
  choose = function(units, most)
    local used
    local runs = units > 0 and {{from = 0, to = units, before = units}} or {}
    chosen, used, barred = picking.pick({
      runs = runs, at = function() return soon end, first_at = function(time) return time <= soon and 0 or units end,
    }, most)
    picking.want_these(chosen)
    for _, job in ipairs(chosen) do job.picked = true end
    return used
  end

  -- charge writes the states of the jobs that got slots, and returns which slot each got.
  function picking.charge()
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
  function picking.refusals()
    local most, list = soon, {}
    if AHEAD then most = no_slot or now + (c.reach or 0) end
    for _, job in ipairs(jobs) do
      local at, gate = picking.allowed_at(job, free)
      if not job.granted and gate and at > most then
        local most_ahead = gate.quota and at < math.huge and at or now + POLL -- a quota's window may be over in a month
        list[#list + 1] = job.number .. ':' .. gate.number .. ':' .. int(math.min(at, most_ahead))
      end
    end
    return table.concat(list, ' ')
  end
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
  local used
  chosen, used, barred, no_slot = picking.pick(offer, units)
  picking.want_these(chosen)
  if #chosen == 0 then return nil, barred and 0 or offer.wait end
  return {given = used, behind = algorithm.grant(c, offer, chosen)}
end
