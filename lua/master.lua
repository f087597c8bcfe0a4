-- master_of says which master this is: by INFO, or none where identity says that this server can't tell. Nothing where
-- INFO doesn't say.
local function master_of(identity)
  if identity ~= 'info' then return 'none' end
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%w+)')
end
