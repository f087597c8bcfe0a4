-- A call without a cooldown: news of other nodes, a retry, a change of the settings.
local HOLD = 20000 -- while a report of a step waits for a second opinion
local NEWS = 100000 -- a limit that nobody asked for in this time may have missed a step of the clock

attend()
if epoch ~= '0' and epoch ~= current and known ~= stored and flag('l') and now < not_before and own.changed == set.changed then
  -- The node worked under other terms before the cooldown, and none is newer: the units that it used still count.
  not_before = math.max(not_before, now + own.horizon + own.lateness + span(own, set))
  began = math.max(began or 0, not_before)
  algorithm.begin(set, not_before)
  note('not_before', int(not_before))
  note('began', int(began))
  flush()
  timeline(c, redis.call('HMGET', limit, unpack(algorithm.fields)), 0)
end
if history_id ~= master then note('master', history_id) end
if epoch == '0' then -- the node has just started
  local there = 0
  others(function() there = there + 1 end)
  -- A node that has been here for longer would see a step of this clock; this one waits for it.
  if there > 0 and now - last > NEWS then redis.pcall('PUBLISH', limit, 'poll') end
end
if flag('h') then redis.pcall('PUBLISH', limit, 'hello ' .. node) end

epoch, now = current, math.max(now, last)
local counted = set.max_in_flight == 0 or old.max_in_flight > 0 and now >= room_from -- what was granted before had to find room
if flag('r') and want > 0 and counted then
  local f = {}
  for word in string.gmatch(redis.call('GET', reserved) or '', '%S+') do f[#f + 1] = word end
  if f[1] == seq and f[2] == epoch then -- that reply was lost: the same slots, beside a fresh reading of the clock
    for i = 3, 10 do f[i] = tonumber(f[i]) end
    local given = f[3]
    repeated = f[10]
    if set.max_in_flight > 0 then given = select(2, shared(given, f[10])) end -- perhaps to other jobs, but to no more of them
    return reply(given, f[4], f[5], f[6], f[7], f[8], f[9], 0, 0)
  end
end

if applied ~= stored or slow.paced ~= slow.pace then
  local begins = algorithm.change(c, old, now, not_before)
  note('paced', slow.pace)
  if applied ~= stored then -- the settings have changed since the last reservation
    -- Slots of the old terms may be out for so long, which is longer than the new ones may say.
    began = math.max(begins or began or 0, now + old.horizon + old.lateness)
    lanes.empty()
    note('applied', stored)
    note('began', int(began))
    note('earmark', '')
    if set.max_in_flight > 0 and old.max_in_flight == 0 then -- nobody has kept records yet
      room_from = now + hold
      note('room_from', int(room_from))
    end
    note_wide(old.guard)
    earmark = nil
    redis.pcall('PUBLISH', limit, 'applied') -- whoever changed them may not be allowed to
  end
end
