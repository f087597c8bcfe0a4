-- The dedup store: which jobs are being sent, and which were sent. One call takes a batch of entries, of any jobs.
--
-- KEYS[1]  dedup  dispatcher:{<namespace>}:sent  hash: list, the generations, newest first, each as
--                  name:buckets:expires; and of the newest when it began and ends, and the entries it still takes
-- KEYS[i]  buckets dispatcher:{<namespace>}:sent:<generation>:<bucket>  hash: of each job, by its digest, the outcome, or
--                  the owner of its claim, the claim's number and its end. From 2 on; each entry has one of each generation
--
-- ARGV[1] known      the caller's list; KEYS follow from it
-- ARGV[2] period_us  for how long a generation takes entries
-- ARGV[3] window_us  for how long an entry is kept at least
-- ARGV[4] hold_us    for how long a claim stands: then its call is over, or its node is gone
-- ARGV[5] take_over  1: a claim whose hold is over is taken over; 0: it is reported as unknown
-- ARGV[i] entries    from 6 on, four each: verb (claim, done, release, peek), digest, owner, number. A done's number is its
--                    outcome
--
-- Reply: 1 now_us  2 known: 1 or 0. 0: 3 list, and nothing was done. 1: of each entry two:
--        code   0 free, or nothing to report  1 granted  2 sent  3 busy  4 unknown  5 granted, taken over
--        value  of sent: the outcome; of busy: in how many µs the claim ends
--
-- Missing key: of a bucket, its jobs are free. Of the dedup store: the earlier generations are forgotten.
local EACH = 128 -- jobs in a bucket: few enough to be packed (hash-max-listpack-entries)
local LEAST, MOST = 1024, 1048576 -- buckets of a generation
local GENERATIONS = 8 -- that are searched for each entry
local FAR = 10 -- holds: a claim that ends so far ahead was written before the clock was set back, and begins again

local function int(x) return string.format('%.0f', x) end

local dedup, known = KEYS[1], ARGV[1]
local period, window, hold = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local is = redis.call('HMGET', dedup, 'list', 'began', 'ends', 'expires', 'buckets', 'room')
local list, began, ends, expires = is[1] or '', tonumber(is[2] or 0), tonumber(is[3] or 0), tonumber(is[4] or 0)
local buckets, room = tonumber(is[5] or LEAST), tonumber(is[6] or 0)

-- enough is how many buckets the next generation needs at the current rate; the rate may double.
local function enough()
  local rate = (buckets * EACH - room) / math.max(now - began, 1000000)
  local count = LEAST
  while count < MOST and count < 8 * buckets and count * EACH < 2 * rate * period do count = count * 2 end
  return count
end

-- begin makes a generation, and forgets those whose keys have expired.
local function begin()
  local name, last = math.floor(now / 1000), now + period + window
  local count, kept = list == '' and LEAST or enough(), {}
  for word, of, till in string.gmatch(list, '((%d+):%d+:(%d+))') do
    name = math.max(name, tonumber(of) + 1)
    if tonumber(till) > now then kept[#kept + 1], last = word, math.max(last, tonumber(till)) end
  end
  table.insert(kept, 1, int(name) .. ':' .. count .. ':' .. int(now + period + window))
  list = table.concat(kept, ' ')
  redis.call('HSET', dedup, 'list', list, 'began', int(now), 'ends', int(now + period),
    'expires', int(now + period + window), 'buckets', count, 'room', count * EACH)
  redis.call('PEXPIREAT', dedup, int(math.ceil(last / 1000)))
end

local _, generations = string.gsub(list, '%S+', '')
if now >= ends or (room <= 0 and generations < GENERATIONS) then begin() end
if list ~= known then return {now, 0, list} end

local added = 0

-- find searches an entry's buckets for a digest, and returns its value and the bucket's index.
local function find(first, digest)
  for i = first, first + generations - 1 do
    local value = redis.call('HGET', KEYS[i], digest)
    if value then return value, i end
  end
end

-- put writes into the newest generation, so that the entry is kept for a whole window from now on. where is the index of
-- the bucket that holds the entry now, if that is known. A bucket with its first entry gets its expiry.
local function put(first, digest, value, where)
  if redis.call('HSET', KEYS[first], digest, value) == 0 then return end
  added = added + 1
  if redis.call('HLEN', KEYS[first]) == 1 then redis.call('PEXPIREAT', KEYS[first], int(math.ceil(expires / 1000))) end
  for i = first + 1, first + generations - 1 do
    if not where or where == i then redis.call('HDEL', KEYS[i], digest) end
  end
end

-- claim_of reads a claim's owner, number and end; nothing if the job was sent.
local function claim_of(value)
  local owner, number, till = string.match(value, '^(%S+) (%d+) (%d+)$')
  return owner, tonumber(number), tonumber(till)
end

-- standing returns the code and the value of a job's entry for a delivery.
local function standing(value, me)
  if not value then return 0, 0 end
  local owner, _, till = claim_of(value)
  if not owner then return 2, tonumber(value) or 0 end
  if owner == me then return 0, 0 end
  if now < till then return 3, till - now end
  return 4, 0
end

-- set_back tells whether a claim that ends then was written before the clock was set back.
local function set_back(till) return till and till - now > FAR * hold end

local commands = {}

function commands.peek(first, digest, me)
  local value = find(first, digest)
  local _, _, till = claim_of(value or '')
  if set_back(till) then return 0, 0 end -- the next claim of the job has it begin again
  return standing(value, me)
end

function commands.claim(first, digest, me, number)
  local mine = me .. ' ' .. number .. ' ' .. int(now + hold)
  local value, where = find(first, digest)
  local owner, other, till = claim_of(value or '')
  if set_back(till) then
    value = owner .. ' ' .. int(other) .. ' ' .. int(now + hold)
    put(first, digest, value, where)
    where = first
  end
  if owner == me and other > tonumber(number) then return 3, hold end -- an old command that was delayed
  local code, rest = standing(value, me)
  if code == 4 and ARGV[5] == '1' then code = 5 end
  if code == 0 then code = 1 end
  if code == 1 or code == 5 then put(first, digest, mine, where or 0) end
  return code, rest
end

function commands.done(first, digest, _, outcome)
  put(first, digest, outcome)
  return 0, 0
end

-- A release ends the claims up to its own number, so a late release does not end the next claim.
function commands.release(first, digest, me, number)
  local value, i = find(first, digest)
  local owner, other = claim_of(value or '')
  if owner == me and other <= tonumber(number) then redis.call('HDEL', KEYS[i], digest) end
  return 0, 0
end

local reply = {now, 1}
for i = 0, (#ARGV - 5) / 4 - 1 do
  local at = 6 + 4 * i
  local code, value = commands[ARGV[at]](2 + generations * i, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  reply[#reply + 1], reply[#reply + 2] = code, value
end
if added > 0 then redis.call('HINCRBY', dedup, 'room', -added) end
return reply
