-- with slowdown.lua
-- What the provider's answers leave of the limit: see throttle/feedback, which keeps the slowdown in the limit's hash.
-- The algorithm changes over to the slower pace, and back, as its change says: so it stays within the operator's cap.
--
-- In the limit's hash: slowdown, as throttle/limit packs it; paced, the pace of the slowdown under which the timeline goes,
-- "units window_us"; empty: it goes under the contract.
local slow = {
  paced = v[13] or '', pace = '', till = 0, -- till: nothing is granted before
  LEAST = 0.001, -- share of the operator's cap; feedback leaves more, unless an operator raised the cap since
}

v[12] = v[12] or ''
if v[12] ~= '' then
  local one = slowdown_of(v[12], now)
  if one and not (set and set.ignore_throttled) then
    if one.slowed ~= 0 then -- else the fleet only watches its calls, under the contract
      slow.pace, slow.till = string.format('%.6f', one.units) .. ' ' .. int(one.window), one['until']
    end
  else -- it is none, or operators want none
    redis.call('HDEL', limit, 'slowdown')
    v[12] = ''
  end
end

-- slow.down makes settings as slow as a pace says, such as slow.pace. stated is the cap as operators state it.
function slow.down(terms, to)
  if not terms then return nil end
  terms.stated = terms.cap
  local units, window = string.match(to, '^(%S+) (%d+)$')
  if not units then return terms end
  local share = math.max(slow.LEAST, tonumber(units) / tonumber(window) * terms.window / terms.cap)
  if share < 1 then
    terms.cap = math.max(terms.reserve + terms.max_cost, math.floor(terms.cap * share))
    terms.period = math.ceil(terms.period / share)
  end
  return terms
end
