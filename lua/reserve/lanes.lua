-- Lanes: all jobs of a call are of one lane, and nodes that are refused wait in the queue of that lane.
--
-- Slots of the first lane may lie as far ahead as the horizon, those of the lanes behind it less far. So a job of the first lane
-- finds room behind all slots that the others were granted. Where the first lanes take all there is, a lane that waits is
-- owed its min_share: each unit that is granted to others adds that to its credit. The lanes before it leave it so many units, and
-- it may take them as far ahead as the horizon.
--
-- ARGV[12]: "ticket lane reach_us min_share …", lane counted from 0, and the min_share of each lane. Without lanes: "ticket".
--
-- In the limit's hash: lanes, of each lane "queued served spare credit till", the first lane first.
--   queued  units that were wanted by all nodes that took a place in the queue
--   served  as far the queue has come
--   spare   since when units are free that those ahead have not asked for, µs; 0: none are
--   credit  units that the lane is owed
--   till    until then it is taken to have jobs, µs
lanes.list, lanes.own, lanes.reach, lanes.shares, lanes.changed = {}, 1, 0, {}, false
lanes.CREDIT = 40000 -- a lane is owed what the pace gives in this time, and one job, at most
lanes.SOON = 5000 -- a lane asks no sooner again
lanes.WAITS = 1000000 -- a lane is taken to have jobs for so long at most
for queued, served, spare, credit, till in string.gmatch(v[9] or '', '(%d+) (%d+) (%d+) (%-?[%d.]+) (%d+)') do
  lanes.list[#lanes.list + 1] = {
    queued = tonumber(queued), served = tonumber(served), spare = tonumber(spare), credit = tonumber(credit), till = tonumber(till),
  }
end
do
  local words = {}
  for word in string.gmatch(ARGV[12], '%S+') do words[#words + 1] = tonumber(word) end
  lanes.ticket = words[1]
  if words[2] then
    lanes.own, lanes.reach = words[2] + 1, words[3]
    for i = 4, #words do lanes.shares[i - 3] = words[i] end
  end
end
for i = #lanes.list + 1, math.max(lanes.own, #lanes.shares) do
  lanes.list[i] = {queued = 0, served = 0, spare = 0, credit = 0, till = 0}
end
local lane, ticket = lanes.list[lanes.own], lanes.ticket

-- lanes.set changes a field of a lane.
function lanes.set(one, field, value)
  if one[field] ~= value then
    one[field], lanes.changed = value, true
  end
end

-- lanes.keep writes the lanes where one has changed.
function lanes.keep()
  if not lanes.changed then return end
  local words = {}
  for i, one in ipairs(lanes.list) do
    local credit = string.format('%.3f', one.credit)
    words[i] = int(one.queued) .. ' ' .. int(one.served) .. ' ' .. int(one.spare) .. ' ' .. credit .. ' ' .. int(one.till)
  end
  note('lanes', table.concat(words, ','))
end

-- lanes.pass lets those pass that wait behind the first one in the queue.
function lanes.pass() lanes.set(lane, 'served', math.min(lane.queued, lane.served + 1)) end

-- lanes.empty lets all pass that wait in the queues.
function lanes.empty()
  for _, one in ipairs(lanes.list) do
    lanes.set(one, 'served', one.queued)
    lanes.set(one, 'spare', 0)
  end
end

-- lanes.below returns the units that are owed to the lanes behind this one, once it has been granted so many.
function lanes.below(taken)
  local units = 0
  for i = lanes.own + 1, #lanes.list do
    local one = lanes.list[i]
    if one.till > now then units = units + math.max(0, math.floor(one.credit + taken * (lanes.shares[i] or 0))) end
  end
  return units
end

-- lanes.above returns until when a node of a lane before this one waits in its queue; 0: none does. This lane leaves it all units.
-- Where slots are reserved ahead, the lanes before have a reach of their own instead.
function lanes.above()
  local till = 0
  for i = 1, AHEAD and 0 or lanes.own - 1 do
    local one = lanes.list[i]
    if one.till > now and one.queued > one.served then till = math.max(till, one.till) end
  end
  return till
end

-- lanes.behind returns whether an earmark is that of a lane behind this one: it holds up no job of this one.
function lanes.behind(text) return tonumber(string.match(text, '%d+$')) > lanes.own end

-- lanes.most returns how many units a lane is owed at most, under a contract.
function lanes.most(c) return c.max_cost + math.ceil(c.cap * lanes.CREDIT / c.window) end

-- lanes.sooner returns when a refused node asks again that would ask after that time: when the lanes before are to have asked.
function lanes.sooner(time)
  local till = lanes.above()
  return till > 0 and math.min(time, math.max(lanes.SOON, till - now)) or time
end

-- lanes.granted notes that this lane got so many units: it pays for them, and those that wait are owed more.
function lanes.granted(c, units)
  for i, share in ipairs(lanes.shares) do
    local one, credit = lanes.list[i], 0
    if i == lanes.own then credit = math.max(-c.max_cost, one.credit - units * (1 - share))
    elseif one.till > now then credit = math.min(lanes.most(c), one.credit + units * share) end
    lanes.set(one, 'credit', credit)
  end
end

-- lanes.waits notes that this lane has jobs, and asks again after that time.
function lanes.waits(time)
  if #lanes.shares > 1 then lanes.set(lane, 'till', math.max(lane.till, now + math.min(lanes.WAITS, time))) end
end
