-- Steps of the clock. A step that one node alone sees may be its own: a host that stood still. Nothing is granted until a
-- node that has read this clock since before that has read it again. One that sees the step as well confirms it.
local AGAIN = 5000000 -- two nodes that report a step within this time confirm each other

-- stepped takes this node's report of a step in. It returns whether the step is believed.
local function stepped()
  if not flag('s') or epoch ~= current then return false end
  local by, at = string.match(step_report or '', '^(%S+) (%d+) %d+$')
  if by and now - tonumber(at) < AGAIN then return by ~= node end -- one node that reports again and again is not heeded
  local witnesses = 0
  others(function(first) if first > 0 and first <= read then witnesses = witnesses + 1 end end)
  if witnesses == 0 then return true end
  step_report = node .. ' ' .. int(now) .. ' ' .. int(read)
  redis.call('HSET', limit, 'step_report', step_report)
  redis.pcall('PUBLISH', limit, 'poll')
  return false
end

-- unconfirmed returns whether a report of a step still waits for a second opinion, which this call may be; and whether
-- none came in time.
local function unconfirmed()
  local by, at, before = string.match(step_report or '', '^(%S+) (%d+) (%d+)$')
  if not by or before == '0' then return false end
  if by ~= node and epoch == current and not flag('s') and since > 0 and since <= tonumber(before) and read >= tonumber(at) then
    redis.call('HSET', limit, 'step_report', by .. ' ' .. at .. ' 0')
    return false
  end
  return true, now - tonumber(at) > learn
end
