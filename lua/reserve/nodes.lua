-- The nodes that use the limit.
local FORGOTTEN = 600000000 -- the record of a node that was not here for this long is removed when another one starts
local ALIVE = 9000000 -- a node that was here within this time is alive: it polls every 4 s at least

-- presence is the node's record of a limit, 0 the first one.
local function presence(which, changed)
  local nth = -1
  for share in string.gmatch(ARGV[5], ' (%d+)') do
    nth = nth + 1
    if nth == which then return int(changed) .. ' ' .. int(now) .. ' ' .. int(since) .. ' ' .. share end
  end
  return int(changed) .. ' ' .. int(now) .. ' ' .. int(since)
end

-- attend writes the node's record.
local function attend()
  if (want == 0 or flag('p')) and not flag('x') then
    redis.call('HSET', nodes, node, presence(0, own.changed))
  end
end

-- forget removes the records of nodes that were not here for long, and calls f, if there is one, with each other node, and with its
-- last and its first reading.
local function forget(key, f)
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local seen, first = string.match(all[i + 1], '^%d+ (%d+) (%d+)')
    seen, first = tonumber(seen), tonumber(first)
    if not seen or seen < now - FORGOTTEN then redis.call('HDEL', key, all[i])
    elseif f then f(all[i], seen, first) end
  end
end

-- others calls f with the first reading of each other node that is alive.
local function others(f)
  forget(nodes, function(name, seen, first)
    if name ~= node and seen >= now - ALIVE then f(first) end
  end)
end
