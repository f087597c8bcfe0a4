-- Redis runs Lua 5.1 and gives a script these globals.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
max_line_length = 140
files["bin/lua/share.lua"] = { ignore = { "211/write", "211/record" } } -- it only reads the settings
