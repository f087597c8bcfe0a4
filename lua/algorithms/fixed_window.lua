-- with window.lua
-- A fixed window: it begins with its first unit, lasts window + guard, and holds no more than the cap. The units of
-- one window's end and of the next one's beginning lie side by side, so a window of the provider's may hold
-- 2 * cap - 1: all but the unit that the first one began with. So that one counts whether or not it is used.
--
-- Where the terms change, the window goes on, and lasts as long as the new ones say.
--
-- The state is a text: "first count", when the window's first unit was granted, and how many it holds.

local function running()
  local first, count = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
  return tonumber(first), tonumber(count)
end

function algorithm.back(_, _, list)
  local first, count = running()
  if not first then return end
  for _, one in ipairs(list) do
    if one.slot >= first then count = math.max(1, count - one.units) end
  end
  redis.call('SET', KEYS[3], int(first) .. ' ' .. int(count), 'KEEPTTL')
end

function algorithm.take(c, now, want, _, ahead, not_before)
  local wait, long = early(c, now, not_before), length(c, now)
  if wait > 0 then return nil, wait end
  local first, count = running()
  if not first or now >= first + long then first, count = now, 0 end
  local given = fitting(c, allowed(c) - count - ahead, want)
  if given == 0 then return nil, count > 0 and first + long - now or SOON end
  redis.call('SET', KEYS[3], int(first) .. ' ' .. int(count + given))
  granted(now, first + long)
  return {given = given}
end
