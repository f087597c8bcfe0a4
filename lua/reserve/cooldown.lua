-- The cooldown: after the timeline was lost, or may have been, nothing is granted until all slots that may be out are over.
local SETTINGS_LOST, SETTINGS_OLD, STATE_LOST, OTHER_MASTER, CLOCK_BACK, CLOCK_STEP, OTHER_ALGORITHM = 1, 2, 3, 4, 5, 6, 7
local STEP = 2000 -- a clock that goes back by less is held

if flag('x') then -- the node leaves: nobody waits for it
  redis.call('HDEL', nodes, node)
  redis.call('DEL', reserved)
end
while set and not newer and set.revert_at > 0 and now >= set.revert_at do -- an override has ended
  stored, set = ended(stored, set)
end
if set and not newer and set.algorithm ~= ALGORITHM then return nothing(0) end

slow.down(set, slow.pace)
local old = applied == stored and slow.paced == slow.pace and set or slow.down(unpacked(applied), slow.paced)
local c = newer and own or set or own
timeline(c, v, OWN)
local why, waits, unanswered = 0 -- waits: a report of a step waits for a second opinion
if not set then why = SETTINGS_LOST
elseif newer then why = SETTINGS_OLD
elseif not (last and not_before and master and ran and current and old) then why = STATE_LOST
elseif old.algorithm ~= set.algorithm then why = OTHER_ALGORITHM
elseif not algorithm.intact(c, now) then why = STATE_LOST
elseif history_id ~= master and (process(identity) ~= ran or promoted(info)) then why = OTHER_MASTER
elseif now < last - STEP then why = CLOCK_BACK
elseif stepped() then why = CLOCK_STEP
else
  waits, unanswered = unconfirmed()
  if unanswered then why = CLOCK_STEP end -- no node is alive any more that could tell
end

-- span is how long after its slot a unit may count under any algorithm.
local function span(a, b) return math.max(a.window, b.window) + math.max(a.guard, b.guard) end

if why > 0 then
  local earlier = set or own -- under these, units may be out as well
  if why == SETTINGS_LOST or why == SETTINGS_OLD then
    set, stored, began = own, known, tonumber(ARGV[14])
    redis.call('HSET', limit, 'settings', stored)
    redis.call('PERSIST', limit) -- `limit delete` leaves a key with a time to live
  end
  -- All slots that may be out lie within one horizon, are late after the lateness, and count for as long as the
  -- algorithm says. Other nodes may have newer settings than these.
  local before = not_before or 0
  not_before = now + set.horizon + set.lateness + math.max(algorithm.cooldown(set), algorithm.cooldown(earlier))
  began = began or 0
  if why == SETTINGS_LOST then
    not_before = math.max(not_before, now + learn)
    -- The remains of a limit that was deleted tell a node that knows only its file: others may have used other terms.
    -- The nodes remember the time as began, should the key be lost again meanwhile.
    if not flag('l') and redis.call('EXISTS', nodes, history) > 0 then
      not_before = math.max(not_before, now + set.horizon + set.lateness + span(set, set))
      began = math.max(began, not_before)
    end
    if before > now then -- `limit delete` left it behind
      not_before = math.max(not_before, before)
      began = math.max(began, not_before)
    end
  end
  -- A debt under other terms is paid by waiting.
  if old and applied ~= stored and (why > STATE_LOST or old.algorithm ~= set.algorithm) then
    began = now + math.max(old.horizon, set.horizon) + math.max(old.lateness, set.lateness) + span(old, set)
    not_before = math.max(not_before, began)
  end
  not_before = math.max(not_before, math.min(began, now + set.horizon + set.lateness + set.window + set.guard))
  began = math.min(began, not_before) -- by then, what earlier settings granted is over as well
  epoch = int(now)
  redis.call('DEL', KEYS[3], reserved)
  -- Nodes that work write their records with the next poll. If all records are gone, the calls of others count as well.
  local unknown = redis.call('EXISTS', calls) == 0 or earlier.max_in_flight == 0 or old and old.max_in_flight == 0
    or why == CLOCK_BACK or why == CLOCK_STEP
  room_from = now + math.max(learn, unknown and hold or 0)
  algorithm.begin(set, not_before)
  note_wide(math.max(earlier.guard, old and old.guard or 0))
  if why <= OTHER_MASTER then
    note('may_be_lost', epoch)
    if why > SETTINGS_LOST or ARGV[4] ~= '0' then note('lost', epoch) end -- else it may be new
  end
  if tonumber(seldom('lost') or 0) > now then note('lost', epoch) end -- written before the clock was set back
  redis.call('HDEL', limit, 'step_report')
  redis.call('HSET', limit, 'last', epoch, 'master', history_id, 'run', process(identity) or '', 'epoch', epoch,
    'not_before', int(not_before), 'applied', stored, 'began', int(began), 'lanes', '', 'earmark', '',
    'room_from', int(room_from), 'paced', slow.pace)
  attend()
  redis.pcall('PUBLISH', limit, epoch) -- each node is to poll now, and to restore the settings that it knows
  return nothing(not_before - now - set.horizon, why)
end
