-- note_event writes down, for people, what became of the provider's refusals: in the stream dispatcher:{<namespace>}:events:<name>.
local function note_event(events, event, by)
  redis.call('XADD', events, 'MAXLEN', 1000, '*', 'event', event, 'by', by)
end
