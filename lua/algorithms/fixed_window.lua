-- with window.lua
-- A fixed window: it begins with its first unit, lasts window + guard, and holds no more than the cap. The units of
-- one window's end and of the next one's beginning lie side by side, so a window of the provider's may hold
-- 2 * cap - 1: all but the unit that the first one began with.
--
-- The state is a count. In the limit's hash: keep, the end of the window, and the fields of window.lua.

function algorithm.back(c, _, list)
  for _, one in ipairs(list) do
    local count = tonumber(redis.call('GET', KEYS[3]) or 0)
    if one.slot >= c.keep - length(c) and count >= one.units then redis.call('SET', KEYS[3], int(count - one.units), 'KEEPTTL') end
  end
end

function algorithm.take(c, now, want, _, ahead, not_before)
  local wait = early(c, now, not_before)
  if wait > 0 then return nil, wait end
  local ends, count = math.min(c.keep, algorithm.left(c)), 0 -- a window that became shorter ends sooner
  if now >= ends then ends = now + length(c) else count = tonumber(redis.call('GET', KEYS[3]) or 0) end
  local given = fitting(c, allowed(c) - count - ahead, want)
  if given == 0 then return nil, count > 0 and ends - now or SOON end
  redis.call('SET', KEYS[3], int(count + given))
  granted(c, now, ends)
  return {given = given}
end
