//! What redis does in one step. `KEYS` and `ARGV` are the names that redis gives.

/// Value and digest of a key, or nil.
pub(super) const GET: &str = "local v = redis.call('GET', KEYS[1]) \
     if not v then return false end \
     return {v, redis.sha1hex(v)}";

/// Digest of a key's value, or nil.
pub(super) const REVISION: &str = "local v = redis.call('GET', KEYS[1]) \
     if not v then return false end \
     return redis.sha1hex(v)";

/// Puts a value with an end where nothing stands, or what names the owner, or what has a digest.
/// Arguments: value, owner, life in ms, digest or "". Returns the digest of what stands now, and
/// its value when it is another's.
pub(super) const CLAIM: &str = "local v = redis.call('GET', KEYS[1]) \
     if v and not string.find(v, ARGV[2], 1, true) then \
       local digest = redis.sha1hex(v) \
       if digest ~= ARGV[4] then return {digest, v} end \
     end \
     redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) \
     return {redis.sha1hex(ARGV[1]), false}";

/// Gives keys that name the owner a new end. Arguments: owner, life in ms. Returns how many.
pub(super) const RENEW: &str = "local n = 0 \
     for _, key in ipairs(KEYS) do \
       local v = redis.call('GET', key) \
       if v and string.find(v, ARGV[1], 1, true) then \
         n = n + redis.call('PEXPIRE', key, ARGV[2]) \
       end \
     end \
     return n";

/// Removes a key that names the owner. Returns 1, 0 when there is none, -1 when it names another.
pub(super) const RELEASE: &str = "local v = redis.call('GET', KEYS[1]) \
     if not v then return 0 end \
     if not string.find(v, ARGV[1], 1, true) then return -1 end \
     return redis.call('DEL', KEYS[1])";

/// The pattern of the keys that begin with a text.
pub(super) fn pattern_of(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for letter in prefix.chars() {
        if ['*', '?', '[', ']', '^', '\\'].contains(&letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('*');
    pattern
}
