-- Register a node of some Kafka groups with the limit that it works under. The first node of a group that is there
-- declares the limit; a node with another one is refused while any node is there. Where Redis lost the declaration, a node
-- may declare another one before the others are back. The node that registered first wins: for a while it takes the place
-- of a later declaration, and the later node is refused. A node also says the names of all its limits, and learns which
-- nodes say others. Those are not refused.
--
-- KEYS[1…] groups  dispatcher:{<namespace>}:group:<kafka group>  hash: of each node when it was here, "time_us names", and the
--                  limit declared, and when the first of its nodes registered first, in us
--
-- ARGV[1] node      its name, unique per start
-- ARGV[2] declared  the limit that it works under, as text that is compared
-- ARGV[3] gone_us   a node that was not here for longer is gone
-- ARGV[4] leave     1: the node ends
-- ARGV[5] names     of all limits of the node, sorted: "a,b"
-- ARGV[6] first_us  when the node registered first; 0: it does now
-- ARGV[7] young_us  a declaration that is older than this is final
--
-- Reply: 1 now_us  2 which of the keys has another limit, from 1; 0: none
--        of another limit: 3 that limit  4… the nodes that are there then, ten at most
--        else: 3 how many other nodes of the same name are there, in the group where they are most
--              4… the nodes with limits of other names, ten at most: "node names"
--
-- Missing key: the node declares its limit.
local node, declared, gone = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local names, first, young = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
if first == 0 then first = now end
local DECLARED, SINCE = '=', '=since' -- fields that are no node's
local differ, counted = {}, {} -- nodes with limits of other names, each of them once

-- others removes the nodes that are gone, and returns the rest but for this one, what was declared, and since when. It notes
-- the nodes with limits of other names. A value without names is of an older node.
local function others(group)
  local there, theirs, from, all = {}, nil, 0, redis.call('HGETALL', group)
  for i = 1, #all, 2 do
    if all[i] == DECLARED then theirs = all[i + 1]
    elseif all[i] == SINCE then from = tonumber(all[i + 1])
    elseif all[i] ~= node then
      local at, limits = string.match(all[i + 1], '^(%d+) ?(.*)$')
      if tonumber(at or 0) + gone < now then
        redis.call('HDEL', group, all[i])
      else
        there[#there + 1] = all[i]
        if limits ~= '' and limits ~= names and not counted[all[i]] then
          counted[all[i]] = true
          differ[#differ + 1] = all[i] .. ' ' .. limits
        end
      end
    end
  end
  return there, theirs, from
end

local function name(id) return string.sub(id, 1, -18) end -- without -0123456789abcdef

local twins, since = 0, {}
for i, group in ipairs(KEYS) do
  local there, theirs, at = others(group)
  since[i] = theirs == declared and at > 0 and math.min(at, first) or first
  local same = 0
  for _, other in ipairs(there) do
    if name(other) == name(node) then same = same + 1 end
  end
  twins = math.max(twins, same)
  if ARGV[4] == '1' then
    if #there > 0 then redis.call('HDEL', group, node) else redis.call('DEL', group) end
  elseif theirs and theirs ~= declared and #there > 0 and not (first < at and now - at <= young) then
    return {now, i, theirs, unpack(there, 1, math.min(#there, 10))}
  end
end
if ARGV[4] ~= '1' then
  for i, group in ipairs(KEYS) do
    redis.call('HSET', group, DECLARED, declared, SINCE, string.format('%.0f', since[i]), node, string.format('%.0f', now) .. ' ' .. names)
    redis.call('PEXPIRE', group, math.ceil(gone / 1000))
  end
end
table.sort(differ)
return {now, 0, twins, unpack(differ, 1, math.min(#differ, 10))}
