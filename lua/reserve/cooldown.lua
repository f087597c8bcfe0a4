-- The cooldown: after the timeline was lost, or may have been, nothing is granted until all slots that may be out are over.
local SETTINGS_LOST, SETTINGS_OLD, STATE_LOST, OTHER_MASTER, CLOCK_BACK, CLOCK_STEP, OTHER_ALGORITHM = 1, 2, 3, 4, 5, 6, 7
local STEP = 2000 -- a clock that goes back by less is held

-- span is how long after its slot a unit may count under any algorithm.
local function span(a, b) return math.max(a.window, b.window) + math.max(a.guard, b.guard) end

-- cause returns why a cooldown is to begin, 0 where none is; and whether a report of a step waits for a second opinion.
local function cause(c, old)
  if not set then return SETTINGS_LOST end
  if newer then return SETTINGS_OLD end
  if not (last and not_before and master and ran and current and old) then return STATE_LOST end
  if old.algorithm ~= set.algorithm then return OTHER_ALGORITHM end
  if not algorithm.intact(c, now) then return STATE_LOST end
  if history_id ~= master and (process(identity) ~= ran or promoted(info)) then return OTHER_MASTER end
  if now < last - STEP then return CLOCK_BACK end
  if stepped() then return CLOCK_STEP end
  local waits, unanswered = unconfirmed()
  if unanswered then return CLOCK_STEP end -- no node is alive any more that could tell
  return 0, waits
end

-- extend lets nothing be granted, and no timeline begin, before a time.
local function extend(till)
  not_before = math.max(not_before, till)
  began = math.max(began, not_before)
end

local function cool_down(why, old)
  if why == SETTINGS_LOST or why == SETTINGS_OLD then
    set, stored, began = own, known, tonumber(ARGV[14])
    redis.call('HSET', limit, 'settings', stored)
    redis.call('PERSIST', limit) -- `limit delete` leaves a key with a time to live
  end
  -- All slots that may be out lie within one horizon, are late after the lateness, and count for as long as the
  -- algorithm says. Other nodes may have newer settings than these.
  local before = not_before or 0
  not_before = now + set.horizon + set.lateness + algorithm.cooldown(set)
  began = began or 0
  if why == SETTINGS_LOST then
    not_before = math.max(not_before, now + learn)
    -- The remains of a limit that was deleted tell a node that knows only its file: others may have used other terms.
    -- The nodes remember the time as began, should the key be lost again meanwhile.
    if not flag('l') and redis.call('EXISTS', nodes, history) > 0 then
      extend(now + set.horizon + set.lateness + span(set, set))
    end
    if before > now then extend(before) end -- `limit delete` left it behind
  end
  -- A debt under other terms is paid by waiting.
  if old and applied ~= stored and (why > STATE_LOST or old.algorithm ~= set.algorithm) then
    began = now + math.max(old.horizon, set.horizon) + math.max(old.lateness, set.lateness) + span(old, set)
    not_before = math.max(not_before, began)
  end
  not_before = math.max(not_before, math.min(began, now + set.horizon + set.lateness + set.window + set.guard))
  epoch = int(now)
  redis.call('DEL', KEYS[3], reserved)
  algorithm.begin(set, not_before)
  redis.call('HDEL', limit, 'suspect')
  redis.call('HSET', limit, 'last', epoch, 'master', history_id, 'run', process(identity) or '', 'epoch', epoch,
    'not_before', int(not_before), 'applied', stored, 'began', int(began), 'queued', 0, 'served', 0, 'spare', 0)
  attend()
  redis.pcall('PUBLISH', limit, epoch) -- each node is to poll now, and to restore the settings that it knows
  return nothing(not_before - now - set.horizon, why)
end

-- lengthen goes on with a cooldown for a node that worked under other terms before it, of which none is newer: the units
-- that it used still count.
local function lengthen(c)
  if epoch == '0' or epoch == current or known == stored or not flag('l') or now >= not_before or own.changed ~= set.changed then return end
  began = began or 0
  extend(now + own.horizon + own.lateness + span(own, set))
  algorithm.begin(set, not_before)
  note('not_before', int(not_before))
  note('began', int(began))
  flush()
  timeline(c, redis.call('HMGET', limit, unpack(TIMELINE)))
end
