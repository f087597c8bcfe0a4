-- with runs.lua
-- A log of all units of the last window + guard, by Redis's clock: no more than the cap of them, wherever the window
-- begins. A window that is empty may be filled at once. A run that has left the window is forgotten.
--
-- The state is the list of runs.lua. In the limit's hash: what window.lua names.
algorithm.name = 'sliding_window_log'

function algorithm.take(c, now, want, _, ahead, quiet)
  local wait = early(c, now, quiet)
  if wait > 0 then return wait, 0 end
  local gone, left = newest(TIME, now - length(c))
  local last = run(-1)
  local number = last and last[NUMBER] or 0
  local count = number - left
  local given = math.max(0, math.min(want, allowed(c) - count - ahead))
  if given == 0 then -- until as many have left the window as are wanted
    local leave = math.min(allowed(c), want + ahead) + count - allowed(c)
    return leave > 0 and leaves(c, left + leave) - now or SOON, 0
  end
  add(now, number + given, gone)
  gave(now, now + length(c))
  return 0, given, now, 0, now, 1, 1, given
end
