-- Lanes: all jobs of a call are of one lane, and nodes that are refused wait in the queue of that lane. Only algorithms that reserve
-- ahead have several lanes; the others have one queue for all jobs.
--
-- Slots of the first lane may lie as far ahead as the horizon, those of the lane behind it less far. So a job of the first lane
-- finds room behind all slots that the others were granted. Where the first lanes take all there is, a lane that waits is
-- owed its min_share: each unit that is granted to others adds that to its credit. The lanes before it leave it so many units, and
-- it may take them as far ahead as the horizon, as soon as it is owed one. It pays with each unit that it gets; a large job leaves
-- it in debt.
--
-- ARGV[12]: "ticket lane reach_us min_share …", lane counted from 0, and the min_share of each lane. Without lanes: "ticket".
--
-- In the limit's hash: lanes, of each lane "queued served spare credit till", the first lane first. What can't be read counts as none.
--   queued  units that were wanted by all nodes that took a place in the queue
--   served  as far the queue has come
--   spare   since when units are free that those ahead have not asked for, µs; 0: none are
--   credit  units that the lane is owed
--   till    until then it is taken to have jobs, µs
-- And asks, "us us …": until when the last node in the queue of each lane asks again. It is read only where there is a queue.
local lane, ticket -- the lane of this call's jobs, and the node's place in its queue
lanes = { -- in one piece: a table that grows field by field costs more
  CREDIT = 40000, -- a lane is owed what the pace gives in this time, and the largest job, at most
  AWAY = 10000000, -- no time of a lane lies further ahead
  LATE = 100000, -- a node in a queue asks by so much later than its time, or has left
  list = {}, own = 1, reach = 0, shares = {}, changed = false, farthest = 0,

  -- set changes a field of a lane.
  set = function(one, field, value)
    if one[field] ~= value then
      one[field], lanes.changed = value, true
    end
  end,

  -- keep writes the lanes where one has changed.
  keep = function()
    if not lanes.changed then return end
    local words = {}
    for i, one in ipairs(lanes.list) do
      local credit = string.format('%.3f', one.credit)
      words[i] = int(one.queued) .. ' ' .. int(one.served) .. ' ' .. int(one.spare) .. ' ' .. credit .. ' ' .. int(one.till)
    end
    note('lanes', table.concat(words, ','))
  end,

  -- pass lets those pass that wait behind the first one in the queue.
  pass = function() lanes.set(lane, 'served', math.min(lane.queued, lane.served + 1)) end,

  -- empty lets all pass that wait in the queues.
  empty = function()
    for _, one in ipairs(lanes.list) do
      lanes.set(one, 'served', one.queued)
      lanes.set(one, 'spare', 0)
    end
  end,

  -- asks returns until when the last node in each queue asks again.
  asks = function()
    local times = {}
    for word in string.gmatch(seldom('asks') or '', '%d+') do
      local time = tonumber(word)
      times[#times + 1] = time < now + lanes.AWAY and time or 0
    end
    for i = #times + 1, #lanes.list do times[i] = 0 end
    return times
  end,

  -- stay notes that a node in the queue of this lane asks again after that time.
  stay = function(time)
    local times = lanes.asks()
    times[lanes.own] = math.max(times[lanes.own], now + time + lanes.LATE)
    for i, at in ipairs(times) do times[i] = int(at) end
    note('asks', table.concat(times, ' '))
  end,
}

ticket = tonumber(ARGV[12])
if not ticket then -- it names lanes as well
  local words = {}
  for word in string.gmatch(ARGV[12], '%S+') do words[#words + 1] = tonumber(word) end
  ticket, lanes.own, lanes.reach = words[1], words[2] + 1, words[3]
  for i = 4, #words do lanes.shares[i - 3] = words[i] end
end
for one in string.gmatch(v[9] or '', '[^,]+') do
  local queued, served, spare, credit, till = string.match(one, '^(%d+) (%d+) (%d+) (%-?%d+%.%d+) (%d+)$')
  if not queued or #one > 80 or tonumber(till) > now + lanes.AWAY or tonumber(spare) > now + lanes.AWAY then
    queued, served, spare, credit, till = 0, 0, 0, 0, 0
  end
  lanes.list[#lanes.list + 1] = {
    queued = tonumber(queued), served = tonumber(served), spare = tonumber(spare), credit = tonumber(credit), till = tonumber(till),
  }
end
for i = #lanes.list + 1, math.max(lanes.own, #lanes.shares) do
  lanes.list[i] = {queued = 0, served = 0, spare = 0, credit = 0, till = 0}
end
lane = lanes.list[lanes.own]

if #lanes.list > 1 then -- a lane that is alone owes nothing to others
  -- below returns the units that are owed to the lanes behind this one.
  function lanes.below()
    local units = 0
    for i = lanes.own + 1, #lanes.list do
      local one = lanes.list[i]
      if one.till > now then units = units + math.max(0, math.floor(one.credit)) end
    end
    return units
  end

  -- granted notes that this lane got so many units: it pays for them, and those that wait are owed more.
  function lanes.granted(c, units)
    for i, share in ipairs(lanes.shares) do
      local one, credit = lanes.list[i], 0
      if i == lanes.own then credit = math.max(-c.max_cost, one.credit - units * (1 - share))
      elseif one.till > now then credit = math.min(c.max_cost + math.ceil(c.cap * lanes.CREDIT / c.window), one.credit + units * share) end
      lanes.set(one, 'credit', credit)
    end
  end

  -- waits notes that this lane has jobs, and asks again after that time.
  function lanes.waits(time)
    if #lanes.shares > 1 then lanes.set(lane, 'till', math.max(lane.till, now + time)) end
  end
end
