-- Calls in flight. Each call of a node says how many it has, from the grant of a slot until the answer. With what it is granted
-- now, that is at least what it has until its next call: so its record is an upper bound. A record ends when all calls that
-- it counts must be over. Numbers are absolute: a lost reply or a dead node leaves nothing behind that somebody must return.
--
-- A record is "count ends_us at_us waits_us call": at_us, when it was written; waits_us, since when the node waits for room,
-- 0: it does not; call, the number of the node's call that wrote it. A call that comes late, behind a newer one, writes nothing.
local calls, busy, hold, number = KEYS[6], tonumber(ARGV[16]), tonumber(ARGV[17]), tonumber(ARGV[18])
local FULL = 10000 -- a node that found no room asks again after this; sooner when one of its own calls is over
local STALE = 100000 -- a node that waits, and did not ask for so long, is not waited for
local PATIENCE = 200000 -- a node that waits for longer is left room by all that wait for less
local waiting_since, newest_call, full = 0, 0, false -- since when this node waits; the newest call that wrote; it found no room

local room, room_from

-- Settings that end, or those of the node where Redis lost its own, may bound the calls instead.
if own.max_in_flight > 0 or set and (set.max_in_flight > 0 or set.revert_at > 0) then -- else there are none of these functions
  room_from = tonumber(seldom('room_from') or 0)

  -- record_of reads a record. One of a time ahead was written before the clock went back: it is moved to now.
  local function record_of(text)
    local count, ends, at, from, call = string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    if not call then return nil end
    local r = {count = tonumber(count), ends = tonumber(ends), at = tonumber(at), from = tonumber(from), call = tonumber(call)}
    if r.at > now then r.ends, r.at, r.from = now + r.ends - r.at, now, 0 end
    return r, r.at == now and tonumber(at) > now
  end

  local function written(r)
    return int(r.count) .. ' ' .. int(r.ends) .. ' ' .. int(r.at) .. ' ' .. int(r.from) .. ' ' .. int(r.call)
  end

  -- others_calls returns how many calls the other nodes have, how many nodes have some or wait, and those that wait.
  local function others_calls()
    local sum, users, waiting, all = 0, 0, {}, redis.call('HGETALL', calls)
    for i = 1, #all, 2 do
      local r, moved = record_of(all[i + 1])
      if all[i] == node then
        if r then waiting_since, newest_call = r.from, r.call end
      elseif not r or r.ends <= now then redis.call('HDEL', calls, all[i])
      else
        if moved then redis.call('HSET', calls, all[i], written(r)) end
        sum, users = sum + r.count, users + 1
        if r.from > 0 and now - r.at < STALE then waiting[#waiting + 1] = r end
      end
    end
    return sum, users, waiting
  end

  -- room returns how many calls may begin on this node. Nodes that wait and have less than an equal part are left room by
  -- those that have their part and, once they waited for long, by those that waited for less.
  room = function()
    local most = set.max_in_flight
    if most == 0 then return math.huge end
    local sum, users, waiting = others_calls()
    local part = math.ceil(most / (users + 1))
    local free = now < room_from and 0 or most - busy - sum
    for _, other in ipairs(waiting) do
      local longer = now - other.from > PATIENCE and (waiting_since == 0 or other.from < waiting_since)
      if other.count < part and (busy >= part or longer) then free = free - 1 end
    end
    full = free < 1
    return free
  end

  -- keep writes the node's record, with the jobs that are granted a slot now.
  keep = function(jobs)
    if not set or set.max_in_flight == 0 then return end
    if newest_call == 0 then
      local r = record_of(redis.call('HGET', calls, node))
      newest_call = r and r.call or 0
    end
    if number < newest_call then return end
    waiting_since = full and (waiting_since > 0 and waiting_since or now) or 0
    if flag('x') or busy + jobs + waiting_since == 0 then return redis.call('HDEL', calls, node) end
    redis.call('HSET', calls, node, written({count = busy + jobs, ends = now + hold, at = now, from = waiting_since, call = number}))
  end
end
