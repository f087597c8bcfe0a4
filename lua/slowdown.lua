-- slowdown_of reads a slowdown at a time; nil where it is none: it can't be read, or it was made before this clock went back, as a time
-- far ahead tells. See throttle/limit/slowdown.go.
local function slowdown_of(packed, at)
  local ok, one = pcall(cjson.decode, packed)
  if not ok or type(one) ~= 'table' then return nil end
  for _, field in ipairs({'number', 'since', 'until'}) do
    if type(one[field]) ~= 'number' or one[field] > at + 61000000 then return nil end
  end
  if type(one.units) ~= 'number' or type(one.window) ~= 'number' or one.units <= 0 or one.window < 1 or one.number < 1 then return nil end
  return one
end
