-- Reserve units of a limit for a node. reserve/call.lua says what is asked and replied; it and the other parts of reserve/
-- are joined in front.
local HOLD = 20000 -- while a report of a step waits for a second opinion
local NEWS = 100000 -- a limit that nobody asked for in this time may have missed a step of the clock

if flag('x') then leave() end

if set and not newer and set.revert_at > 0 and now >= set.revert_at then -- the override has ended
  local before = stored
  stored = set.revert_to
  set = unpacked(stored)
  redis.call('HSET', limit, 'settings', stored)
  record(before, stored)
end
if set and not newer and set.algorithm ~= ALGORITHM then return nothing(0) end

local old = applied == stored and set or unpacked(applied)
local c = newer and own or set or own
timeline(c, v)
local why, waits = cause(c, old)
if why > 0 then return cool_down(why, old) end

attend()
lengthen(c)
if history_id ~= master then note('master', history_id) end
if epoch == '0' then -- the node has just started
  local there = 0
  others(function() there = there + 1 end)
  -- A node that has been here for longer would see a step of this clock; this one waits for it.
  if there > 0 and now - last > NEWS then redis.pcall('PUBLISH', limit, 'poll') end
end
if flag('h') then redis.pcall('PUBLISH', limit, 'hello ' .. node) end

epoch, now = current, math.max(now, last)
local repeated = flag('r') and want > 0 and again()
if repeated then return repeated end

if applied ~= stored then -- the settings have changed since the last reservation
  -- Slots of the old terms may be out for so long, which is longer than the new ones may say.
  began = math.max(algorithm.change(c, old, now, not_before) or began or 0, now + old.horizon + old.lateness)
  served, spare = queued, 0
  note('applied', stored)
  note('began', int(began))
  note('served', int(served))
  note('spare', 0)
  redis.pcall('PUBLISH', limit, 'applied') -- whoever changed them may not be allowed to
end

if want == 0 then return yield(waits and HOLD) end
if waits then return nothing(HOLD, 0, ticket) end
if set.paused then
  note('last', int(now))
  return nothing(set.revert_at > 0 and math.min(POLL, set.revert_at - now) or POLL)
end
return take(c)
