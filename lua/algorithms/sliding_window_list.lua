-- with runs.lua
-- A unit is given when the cap-th before it was given at least window + guard ago: then no window holds more than
-- the cap, at the full rate and with bursts of up to the cap. Nothing is counted, and only times are looked at.
--
-- The state is the list of runs.lua, of the last cap units, whenever they were given.
algorithm.name = 'sliding_window_list'

function algorithm.take(c, now, want, _, ahead, quiet)
  local wait = early(c, now, quiet)
  if wait > 0 then return wait, 0 end
  local last = run(-1)
  local number = last and last[NUMBER] or 0
  local before = number - allowed(c) + ahead -- the unit before the one whose leaving lets the next one go
  local _, left = newest(TIME, now - length(c))
  local given = math.max(0, math.min(want, left - before))
  if given == 0 then
    local unit = math.min(number, before + want)
    return unit > left and leaves(c, unit) - now or SOON, 0
  end
  add(now, number + given, newest(NUMBER, number + given - allowed(c)))
  gave(now, now + length(c))
  return 0, given, now, 0, now, 1, 1, given
end
