-- Quotas: gates whose units are counted and not kept apart. A value of a quota's key may use them as fast as the other limits
-- allow. The windows of a calendar quota are those of the calendar; the node names their bounds, for Redis knows no time zones.
-- A rolling quota counts in parts of its window. A part counts until all of it lies further back than the window and the guard.
--
-- A slot that lies nearer to a bound of the calendar than the guard counts on both sides of it: its call may come on either.
--
-- The state of a value is a list of "window:granted:returned", oldest first: when the window began, or the number of the part;
-- the units that were granted in it; and those of them that were not used. Both only grow.
--
-- The state outlives the epoch of the timeline. Where all jobs count together, each node remembers the newest state that it has
-- seen and passes it with its calls, so Redis learns again what it has lost: of each window the larger count holds. For some
-- time after an epoch's begin nothing is granted, so that all nodes come by. A clock that goes ahead ends the parts of a rolling
-- window too early. So a rolling quota that is no longer than a gate's window waits for all of it, as gates do.
-- Slots of a reservation whose reply was lost are not
-- used, so nobody has to remember them. With a key nobody remembers the states: see on_lost.
--
-- A clock of Redis that goes ahead ends a window of the calendar too early. Once it is set back, that window goes on. So the
-- newest windows that are over stay known. One step ahead that is taken back within a window has seen two other windows at most.
local quotas = {PARTS = 64} -- functions; and the parts of a rolling quota's window, as quota.Parts
local PAST = 2 -- windows of the calendar that are over, and stay known
local KEPT_MS = 600000 -- a state of the calendar is kept for a window after its newest one, and no longer than this
local tallies = {} -- of each state of a quota: by window, the units granted and returned

if GATES > 0 then -- a call without gates does not make these functions
  -- ids returns the windows that a slot counts in; nothing where the node did not name the slot's window.
  function quotas.ids(gate, slot)
    if gate.rolling > 0 then return {math.floor(slot / gate.part)} end
    local b = gate.bounds
    for i = 1, #b - 1 do
      if slot >= b[i] and slot < b[i + 1] then
        local all = {b[i]}
        if i > 1 and slot < b[i] + widest then all[2] = b[i - 1] end
        if b[i + 2] and slot >= b[i + 1] - widest then all[#all + 1] = b[i + 1] end
        return all
      end
    end
  end

  -- over returns when a window is over: a unit of it counts no more.
  function quotas.over(gate, id)
    if gate.rolling > 0 then return (id + 1) * gate.part + gate.rolling + widest end
    for _, bound in ipairs(gate.bounds) do
      if bound > id then return bound + widest end
    end
    return now + POLL
  end

  -- read_counts reads a state. Parts that are over are left out. Parts that lie further ahead than any slot were counted before
  -- the clock was set back. They count as the newest part: for a window at most, where the state is written again. So it returns
  -- also whether there are some.
  function quotas.read_counts(gate, text)
    local tally, last_part, ahead = {}, gate.rolling > 0 and math.floor((now + HORIZON + STEP) / gate.part) or math.huge, false
    for id, all, back in string.gmatch(text or '', '(%d+):(%d+):(%d+)') do
      id = tonumber(id)
      if gate.rolling == 0 or quotas.over(gate, id) > now then
        ahead, id = ahead or id > last_part, math.min(id, last_part)
        local n = tally[id] or {granted = 0, returned = 0}
        tally[id] = {granted = n.granted + tonumber(all), returned = n.returned + tonumber(back)}
      end
    end
    return tally, ahead
  end

  -- written_counts is a state as text: the windows that count, and the newest ones that are over.
  function quotas.written_counts(gate, tally)
    local all, text, past = {}, {}, 0
    for id in pairs(tally) do all[#all + 1] = id end
    table.sort(all)
    while gate.rolling == 0 and all[past + 1] and quotas.over(gate, all[past + 1]) <= now do past = past + 1 end
    for i = math.max(1, past - PAST + 1), #all do
      local id = all[i]
      text[#text + 1] = int(id) .. ':' .. int(tally[id].granted) .. ':' .. int(tally[id].returned)
    end
    return table.concat(text, ' ')
  end

  function quotas.write_counts(gate, key, tally)
    local ends, b = now, gate.bounds
    for id in pairs(tally) do ends = math.max(ends, quotas.over(gate, id)) end
    local margin = gate.rolling > 0 and math.min(60000, gate.rolling / 1000) or 60000 -- ms
    if b[4] then margin = math.min(KEPT_MS, (b[4] - b[3]) / 1000) end
    redis.call('SET', key, quotas.written_counts(gate, tally), 'PX', int(math.ceil((ends - now) / 1000 + margin)))
  end

  -- spent is how many units count beside a slot in a window.
  function quotas.spent(gate, tally, id, slot)
    local sum, oldest = 0, gate.rolling > 0 and math.floor((slot - gate.rolling - widest) / gate.part)
    for other, n in pairs(tally) do
      if other == id or oldest and other >= oldest then sum = sum + n.granted - n.returned end
    end
    return sum
  end

  -- has_room tells whether so many units more fit at a slot.
  function quotas.has_room(gate, tally, units, slot)
    local windows = quotas.ids(gate, slot)
    if not windows then return false end
    for _, id in ipairs(windows) do
      if quotas.spent(gate, tally, id, slot) + units > gate.cap then return false end
    end
    return true
  end

  -- room_at is when so many units more may fit, if they do not now.
  function quotas.room_at(gate, tally, units, slot)
    if quotas.has_room(gate, tally, units, slot) then return 0 end
    local windows = quotas.ids(gate, slot)
    if not windows then return now + POLL end
    if gate.rolling == 0 then
      local at = 0
      for _, id in ipairs(windows) do
        if quotas.spent(gate, tally, id, slot) + units > gate.cap then at = math.max(at, quotas.over(gate, id)) end
      end
      return at
    end
    local left, all = quotas.spent(gate, tally, windows[1], slot) + units - gate.cap, {}
    for id in pairs(tally) do all[#all + 1] = id end
    table.sort(all)
    for _, id in ipairs(all) do
      left = left - (tally[id].granted - tally[id].returned)
      if left <= 0 then return quotas.over(gate, id) end
    end
    return now + POLL
  end

  function quotas.add_units(gate, tally, units, slot)
    for _, id in ipairs(quotas.ids(gate, slot) or {}) do
      local n = tally[id] or {granted = 0, returned = 0}
      n.granted = n.granted + units
      tally[id] = n
    end
  end

  -- take_back takes units back that were not used. Near a bound it is not known in how many windows they counted.
  function quotas.take_back(gate, tally, units, slot)
    local windows = quotas.ids(gate, slot) or {}
    local n = tally[windows[1]]
    if #windows ~= 1 or not n or n.granted - n.returned < units then return false end
    n.returned = n.returned + units
    return true
  end

  -- remembered puts into a state what a node remembers, and returns whether Redis had lost some of it.
  function quotas.remembered(gate, tally, text)
    local lost = false
    for id, mine in pairs((quotas.read_counts(gate, text))) do
      if not tally[id] or tally[id].granted < mine.granted then tally[id], lost = mine, true end
    end
    return lost
  end

  -- prepare reads what a node says of a quota: the bounds of the windows around now, and what it remembers.
  function quotas.prepare(gate, words, memory, key)
    gate.quota, gate.bounds, gate.part = true, {}, math.ceil(gate.rolling / quotas.PARTS)
    for word in string.gmatch(words, '%d+') do gate.bounds[#gate.bounds + 1] = tonumber(word) end
    if memory == '' or #gate.bounds == 0 and gate.rolling == 0 then return end
    local tally, ahead = quotas.read_counts(gate, redis.call('GET', key) or '')
    if quotas.remembered(gate, tally, memory) or ahead then quotas.write_counts(gate, key, tally) end
  end

  -- resumes is from when on a quota grants units after a loss. lost_at: since then nobody knows the states of values; 0: never.
  -- What was granted before lies up to a horizon behind that, perhaps in the next window of the calendar. A quota that was seeded
  -- when all nodes had come by after a loss is new, and has lost nothing. It returns also whether a loss is the reason.
  function quotas.resumes(gate)
    local window = gate.rolling > 0 and gate.rolling <= LONGEST and gate.rolling + 2 * widest or 0
    local at = tonumber(current or 0) + HORIZON + math.max(learn, window)
    if gate.on_lost ~= 'wait' or lost_at == 0 or gate.seeded > lost_at + learn + HORIZON then return at, false end
    local till = lost_at + HORIZON + widest
    local opens = till < (gate.bounds[1] or 0) and 0 or now + POLL
    if gate.rolling > 0 then opens = till + gate.rolling + widest end
    for i = 1, #gate.bounds - 1 do
      if till >= gate.bounds[i] and till < gate.bounds[i + 1] then opens = gate.bounds[i + 1] + widest end
    end
    return math.max(at, opens), opens >= at
  end
end
