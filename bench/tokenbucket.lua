-- Token bucket in a hash {t, ts}: the rival that RL.ACQUIRE is measured against.
-- KEYS[1] bucket; ARGV: rate in tokens per second, burst in tokens, now in ms, cost in tokens.
-- Returns {allowed, whole tokens left, ms to wait}. It writes nothing on a denial, which many such scripts do:
-- that makes it the cheaper, harder rival.
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local now, cost = tonumber(ARGV[3]), tonumber(ARGV[4])

local state = redis.call('HMGET', KEYS[1], 't', 'ts')
local tokens = tonumber(state[1]) or burst
local ts = tonumber(state[2]) or now
now = math.max(now, ts)
tokens = math.min(burst, tokens + (now - ts) * rate / 1000)

if tokens < cost then
  return {0, math.floor(tokens), math.ceil((cost - tokens) * 1000 / rate)}
end
tokens = tokens - cost
redis.call('HSET', KEYS[1], 't', tokens, 'ts', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(2000 * burst / rate))
return {1, math.floor(tokens), 0}
