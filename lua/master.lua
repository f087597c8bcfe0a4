-- How a script learns which Redis process it runs on, and whether that one has all earlier writes.

-- replication returns the id of this master's history, and the text that says so. Nothing where INFO doesn't say;
-- 'none' where identity says that this server can't tell.
local function replication(identity)
  if identity ~= 'info' then return 'none' end
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then return nil end
  return string.match(info, 'master_replid:(%w+)'), info
end

-- process returns the id of this server's process, which a restart changes.
local function process(identity)
  if identity ~= 'info' then return 'none' end
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or nil
end

-- promoted distinguishes a promotion from a replication backlog that was made or dropped: both change the id of the history,
-- and only a promotion keeps the former id as master_replid2.
local function promoted(info)
  local former = info and string.match(info, 'master_replid2:(%w+)')
  return not former or string.find(former, '[^0]') ~= nil
end
