-- Change a limit's settings: the only writer of them but for book.lua, which restores them and ends overrides. The
-- timeline is taken over by the next booking, which knows its algorithm. limit.lua is joined in front.
--
-- KEYS[1] limit, KEYS[2] history: see limit.lua
--
-- ARGV[1] expected  the changed_us that the caller has read; others may have been faster
-- ARGV[2] by        who changes
-- ARGV[3] why
-- ARGV[4] for_us    after which time the terms of was return by themselves; 0: never; -1: when they did anyway
-- ARGV[5] was       those terms; empty where for_us is 0
-- ARGV[6] max_cap  ARGV[7] max_step
-- ARGV[8] cap_units, and behind it the other new terms, whole: ARGV[8..16] in the order of TERMS
--
-- Reply: 1 status: 0 changed, 1 no such limit, 2 somebody was faster
--        2 changed_us  3 revision  4 until_us: the end of the override, or 0
--
-- Missing key: status 1, nothing is written.
local expected, lasts = tonumber(ARGV[1]), tonumber(ARGV[4])

local set = read()
if not set then return {1, 0, 0, 0} end
if set.changed ~= expected then return {2, set.changed, set.revision, 0} end

local now, before, rails = clock(), terms_of(set), rails_of(set)
for i, name in ipairs(TERMS) do set[name] = tonumber(ARGV[7 + i]) end
set.by, set.why, set.was, set.max_cap, set.max_step = ARGV[2], ARGV[3], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
if lasts >= 0 then set['until'] = lasts > 0 and now + lasts or 0 end
set.changed, set.revision = math.max(now, set.changed + 1), set.revision + 1
write(set)
record(set, before, rails)
return {0, set.changed, set.revision, set['until']}
