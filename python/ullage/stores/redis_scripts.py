"""What the Redis store does on the server, each in one step. `KEYS[1]` is the prefix, `ARGV[1]` the conversation.

Keys after the prefix: `head:NAME` (end, token, owner, until), `log:NAME` (offset → id of the write and bytes), `documents:NAME`
(name → version, id of the write and bytes), `blob:DIGEST`, `users:DIGEST` (conversations that refer to it), `blobs:NAME` (digests),
`stored` (digests by time), `names`.
"""

from __future__ import annotations

__all__ = ["ALL"]

_BEGIN = """
local prefix, name = KEYS[1], ARGV[1]
local head, log, documents = prefix .. 'head:' .. name, prefix .. 'log:' .. name, prefix .. 'documents:' .. name
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local function text(number) return string.format('%.0f', number) end
local function known() redis.call('SADD', prefix .. 'names', name) end
"""

_APPEND = """
local data, at, id, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local there = redis.call('HGET', log, at)
if there and string.sub(there, 1, #id + 1) == id .. '\\n' then
  return {'yes', text(tonumber(at) + #data)}
end
local stop = redis.call('HGET', head, 'end') or '0'
if token ~= '' and redis.call('HGET', head, 'token') ~= token then return {'lost', stop} end
if stop ~= at then return {'moved', stop} end
local now_end = text(tonumber(at) + #data)
redis.call('HSET', log, at, id .. '\\n' .. data)
redis.call('HSET', head, 'end', now_end)
known()
return {'yes', now_end}
"""

# Tokens begin at the time, so that none of a forgotten conversation is good for its successor.
_ACQUIRE = """
local owner = redis.call('HGET', head, 'owner') or ''
local untill = tonumber(redis.call('HGET', head, 'until') or '0')
if owner ~= ARGV[2] and untill > now then return {'no', owner, ''} end
local token = tonumber(redis.call('HGET', head, 'token') or '0') + 1
token = math.max(token, tonumber(clock[1]) * 1000000 + tonumber(clock[2]))
local over = text(now + tonumber(ARGV[3]))
redis.call('HSET', head, 'owner', ARGV[2], 'token', text(token), 'until', over)
known()
return {'yes', text(token), over}
"""

_RENEW = """
if redis.call('HGET', head, 'token') ~= ARGV[2] or redis.call('HGET', head, 'owner') == '' then return false end
local over = text(now + tonumber(ARGV[3]))
redis.call('HSET', head, 'until', over)
return over
"""

_RELEASE = """
if redis.call('HGET', head, 'token') == ARGV[2] then redis.call('HSET', head, 'owner', '', 'until', '0') end
return 'yes'
"""

_SAVE = """
local field, data, after, id = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local there = redis.call('HGET', documents, field)
local version, writer = '0', ''
if there then version, writer = string.match(there, '^(%d+)\\n(%x+)\\n') end
if writer == id then return version end
if version ~= after then return false end
version = text(tonumber(version) + 1)
redis.call('HSET', documents, field, version .. '\\n' .. id .. '\\n' .. data)
known()
return version
"""

_PUT_BLOB = """
local digest = ARGV[2]
redis.call('SET', prefix .. 'blob:' .. digest, ARGV[3])
redis.call('ZADD', prefix .. 'stored', text(now), digest)
redis.call('SADD', prefix .. 'users:' .. digest, name)
redis.call('SADD', prefix .. 'blobs:' .. name, digest)
known()
return 'yes'
"""

_COLLECT = """
local found = 0
for _, digest in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'stored', '-inf', text(now - tonumber(ARGV[2])))) do
  if redis.call('SCARD', prefix .. 'users:' .. digest) == 0 then
    redis.call('DEL', prefix .. 'blob:' .. digest)
    redis.call('ZREM', prefix .. 'stored', digest)
    found = found + 1
  end
end
return found
"""

_FORGET = """
for _, digest in ipairs(redis.call('SMEMBERS', prefix .. 'blobs:' .. name)) do
  redis.call('SREM', prefix .. 'users:' .. digest, name)
end
redis.call('DEL', head, log, documents, prefix .. 'blobs:' .. name)
redis.call('SREM', prefix .. 'names', name)
return 'yes'
"""

ALL = {
    name: _BEGIN + text
    for name, text in {
        "append": _APPEND,
        "acquire": _ACQUIRE,
        "renew": _RENEW,
        "release": _RELEASE,
        "save": _SAVE,
        "put_blob": _PUT_BLOB,
        "collect": _COLLECT,
        "forget": _FORGET,
    }.items()
}
"""The scripts by name."""
