-- The settings of all gates, as this call finds them: overrides that have ended, settings that Redis lost, pauses, and from when
-- on each gate grants units. A quota waits for a loss where that is later than all nodes have come by.
for g = 1, GATES do
  local key, known_text = KEYS[3 + 4 * g], ARGV[17 + 4 * g]
  local held = redis.call('HMGET', key, 'settings', 'not_before', 'seeded', 'opens')
  local text, from = held[1], tonumber(held[2] or 0)
  local gate, mine = unpacked(text), unpacked(known_text)
  if text and not gate or not mine then
    return redis.error_reply('VERSION the settings of the limit ' .. ARGV[18 + 4 * g] .. ' are of a version that this node does not know')
  end
  if gate and not gate.gate then
    return redis.error_reply('VERSION ' .. ARGV[18 + 4 * g] .. ' is the first limit of other nodes; give one of them another name')
  end
  -- Times that were written before the clock was set back. The epoch that began then has a wait of its own.
  if from > now + HORIZON + 2 * math.max(widest, (gate or mine).guard) + math.max(LONGEST, learn) then from = 0 end
  local seeded = tonumber(held[3] or 0)
  if seeded > now then
    seeded = now
    redis.call('HSET', key, 'seeded', int(now))
  end
  if not gate or mine.changed > gate.changed then -- lost, or older than what the node knows
    text, gate = known_text, mine
    local counted = gate.quota and learn or gate.window
    from = math.max(from, now + HORIZON + 2 * widest + counted) -- `limit delete` leaves a time behind
    seeded = held[1] and seeded > 0 and seeded or now
    redis.call('HSET', key, 'settings', text, 'not_before', int(from), 'seeded', int(seeded))
    redis.call('PERSIST', key)
  end
  while gate.revert_at > 0 and now >= gate.revert_at do -- an override has ended
    text, gate = ended(text, gate, key, KEYS[4 + 4 * g])
  end
  if ARGV[4] == '0' then forget(KEYS[5 + 4 * g]) end -- the node has just started
  if flag('x') then redis.call('HDEL', KEYS[5 + 4 * g], node)
  elseif want == 0 or flag('p') then
    redis.call('HSET', KEYS[5 + 4 * g], node, presence(g, mine.changed))
  end
  gate.number = g
  local lost = 0
  if gate.quota then
    gate.seeded = seeded
    quotas.prepare(gate, ARGV[19 + 4 * g], ARGV[20 + 4 * g], KEYS[6 + 4 * g])
    local resumes, after_loss = quotas.resumes(gate)
    gate.from = math.max(from, resumes)
    if after_loss then lost = lost_at end
  else gate.from = math.max(from, tonumber(current) + HORIZON + 2 * widest + gate.window) end
  local opens = int(gate.from) .. ' ' .. int(lost)
  if opens ~= held[4] then redis.call('HSET', key, 'opens', opens) end
  if lost > 0 and gate.from > now then gate.waits = opens end
  if gate.paused then gate.from = now + (gate.revert_at > 0 and math.min(POLL, gate.revert_at - now) or POLL) + HORIZON end
  gates[g], gate_texts[g] = gate, text ~= known_text and text or ''
end
