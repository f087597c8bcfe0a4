-- GCRA by the module redis-cell, whose CL.THROTTLE is called inside the script. T is window / (cap - reserve) in whole
-- ns, and the window is whole seconds. A burst is not paid for: a window of the provider's may hold
-- burst - 1 + ceil((window + guard) / T).
--
-- The state is the module's: its theoretical arrival time in ns. In the limit's hash: tat_ns, the same, for the module
-- forgets it up to 1 ms too early, and a Redis short of memory any time.
local algorithm = {fields = {'tat_ns'}, texts = {tat_ns = true}} -- as a number it would be rounded
local SOON = 5000 -- when to ask again where others ask first

local function spacing(c) return c.window / (c.cap - c.reserve) end

-- throttle asks the module; 0 units take nothing.
local function throttle(c, units)
  local r = redis.pcall('CL.THROTTLE', KEYS[3], int(c.burst - 1), int(c.cap - c.reserve), int(c.window / 1000000), int(units))
  if not r.err then return r end
  if string.find(r.err, 'nknown') then error('MODULE this Redis has no redis-cell (CL.THROTTLE)', 0) end
  error(r.err, 0)
end

local function put(tat, now)
  redis.call('SET', KEYS[3], tat, 'PX', int(math.max(1, math.ceil(tonumber(tat) / 1000000 - now / 1000))))
end

function algorithm.intact(c) return c.tat_ns end

-- cooldown: the arrival time of the units granted lies no further ahead than a burst, and the bucket begins empty.
function algorithm.cooldown(c) return math.ceil(spacing(c)) end

function algorithm.begin(c, not_before)
  throttle(c, 0)
  note('tat_ns', int(not_before + math.ceil((c.burst - 1) * spacing(c))) .. '000')
end

-- change keeps the debt, in units, and a larger burst begins as empty as it is larger: see gcra.lua.
function algorithm.change(c, old, now, not_before)
  old.reserve = c.reserve
  if spacing(c) == spacing(old) and c.burst == old.burst then return nil end
  local owed = math.max(0, math.ceil(tonumber(c.tat_ns) / 1000) + 1 - now)
  owed = math.ceil((owed / spacing(old) + math.max(0, c.burst - old.burst)) * spacing(c))
  local tat = int(now + owed) .. '000'
  c.tat_ns = tat
  note('tat_ns', tat)
  redis.call('DEL', KEYS[3])
  if owed > 0 then put(tat, now) end
  return math.max(now, not_before)
end

function algorithm.take(c, now, want, _, ahead, not_before)
  if now < not_before then return nil, not_before - now end
  local tat = c.tat_ns
  if tonumber(tat) / 1000 > now and redis.call('EXISTS', KEYS[3]) == 0 then put(tat, now) end
  local given = fitting(c, throttle(c, 0)[3] - ahead, want)
  if given > 0 and throttle(c, given)[1] == 1 then given = 0 end
  if given == 0 then
    local over = tonumber(tat) / 1000 - now - (c.burst - math.min(c.burst, needed(want) + ahead)) * spacing(c)
    return nil, over > 0 and math.ceil(over) + 1 or SOON
  end
  note('tat_ns', redis.call('GET', KEYS[3]) or tat)
  return {given = given}
end
