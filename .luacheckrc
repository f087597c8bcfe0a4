-- Redis runs Lua 5.1 and gives a script these globals.
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }
max_line_length = 140
-- No command needs all of limit.lua, master.lua and pace.lua, which are joined in front of it.
ignore = { "211/int", "211/clock", "211/unpacked", "211/record", "211/ended", "211/replication", "211/process", "211/promoted", "211/note", "211/flush", "211/passed", "211/within" }
