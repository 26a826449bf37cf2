//! What is done at an endpoint.

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, KeyValue, KvClient, PutOptions,
    Txn, TxnOp, TxnResponse,
};

use super::failure::{Failure, is_lease_gone};
use super::fleet::Fleet;
use super::revision;
use crate::Incarnation;
use crate::store::record::names_owner;
use crate::store::{KeyInfo, MAX_LISTED, MAX_VALUE_BYTES, Record, Release, Revision};

/// How often a claim or release looks again because the record changed meanwhile.
const ROUNDS: usize = 4;
/// Largest message that is taken: as many bytes of a value, and room for what is around it.
const MAX_MESSAGE: usize = MAX_VALUE_BYTES + (64 << 10);
/// Keys on a page of a list.
const PAGE: i64 = 1000;

/// What a claim is about.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) owner: Incarnation,
    pub(super) lease: i64,
    pub(super) over: Option<i64>,
}

/// What became of a claim.
#[derive(Debug)]
pub(super) enum Claimed {
    Held(i64),
    Taken(Record),
    LeaseEnded,
    /// It changed again and again.
    Unsettled,
}

fn record(kv: KeyValue) -> Record {
    let number = kv.mod_revision();
    Record { value: kv.into_key_value().1, revision: revision(number) }
}

fn is_at(key: &str, mod_revision: i64) -> Compare {
    Compare::mod_revision(key, CompareOp::Equal, mod_revision)
}

fn header_revision(response: &TxnResponse) -> i64 {
    response.header().map_or(0, etcd_client::ResponseHeader::revision)
}

impl Wish {
    /// Puts the record if the comparison holds. The revision of that, or `None`.
    async fn put_if(&self, kv: &mut KvClient, when: Compare) -> Result<Option<i64>, Error> {
        let options = PutOptions::new().with_lease(self.lease);
        // The value stands in the request once: two of them would be too large for etcd.
        let put = TxnOp::put(self.key.as_str(), self.value.as_slice(), Some(options));
        let response = kv.txn(Txn::new().when([when]).and_then([put])).await?;
        Ok(response.succeeded().then(|| header_revision(&response)))
    }

    /// One look at the key, and the put if it may be.
    async fn once(&self, kv: &mut KvClient) -> Result<Claimed, Error> {
        // Mostly the lease tells whose the record is, without its value.
        let options = GetOptions::new().with_keys_only();
        let stands = kv.get(self.key.as_str(), Some(options)).await?.take_kvs().into_iter().next();
        let when = match stands {
            None => Compare::create_revision(self.key.as_str(), CompareOp::Equal, 0),
            Some(it) if it.lease() == self.lease || self.over == Some(it.mod_revision()) => {
                is_at(&self.key, it.mod_revision())
            }
            Some(_) => {
                let whole = kv.get(self.key.as_str(), None).await?.take_kvs().into_iter().next();
                match whole {
                    None => return Ok(Claimed::Unsettled),
                    Some(it) if names_owner(it.value(), self.owner) => {
                        is_at(&self.key, it.mod_revision())
                    }
                    Some(it) => return Ok(Claimed::Taken(record(it))),
                }
            }
        };
        Ok(match self.put_if(kv, when).await? {
            Some(revision) => Claimed::Held(revision),
            None => Claimed::Unsettled,
        })
    }

    async fn carry_out(&self, client: Client) -> Result<Claimed, Error> {
        let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
        for _ in 0..ROUNDS {
            match self.once(&mut kv).await {
                Ok(Claimed::Unsettled) => {}
                Err(error) if is_lease_gone(&error) => return Ok(Claimed::LeaseEnded),
                settled => return settled,
            }
        }
        Ok(Claimed::Unsettled)
    }
}

async fn release(client: Client, key: &str, owner: Incarnation) -> Result<Release, Error> {
    let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
    for _ in 0..ROUNDS {
        let stands = kv.get(key, None).await?.take_kvs().into_iter().next();
        let Some(stands) = stands else { return Ok(Release::Absent) };
        if !names_owner(stands.value(), owner) {
            return Ok(Release::Foreign);
        }
        let same = is_at(key, stands.mod_revision());
        let delete = TxnOp::delete(key, None::<DeleteOptions>);
        if kv.txn(Txn::new().when([same]).and_then([delete])).await?.succeeded() {
            return Ok(Release::Removed);
        }
    }
    Ok(Release::Foreign)
}

impl Fleet {
    pub(super) async fn get(&self, key: &str) -> Result<Option<Record>, Failure> {
        let answer = self.run(|client| async move {
            client.kv_client().max_decoding_message_size(MAX_MESSAGE).get(key, None).await
        });
        Ok(answer.await?.take_kvs().into_iter().next().map(record))
    }

    pub(super) async fn revision(&self, key: &str) -> Result<Option<Revision>, Failure> {
        let options = || GetOptions::new().with_keys_only();
        let answer = self.run(|mut client| async move { client.get(key, Some(options())).await });
        Ok(answer.await?.kvs().first().map(|kv| revision(kv.mod_revision())))
    }

    pub(super) async fn put(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.run(|mut client| async move { client.put(key, value, None).await }).await.map(drop)
    }

    pub(super) async fn remove(&self, key: &str) -> Result<(), Failure> {
        self.run(|mut client| async move { client.delete(key, None).await }).await.map(drop)
    }

    pub(super) async fn grant(&self, seconds: i64) -> Result<i64, Failure> {
        let granted = self.run(|mut client| async move { client.lease_grant(seconds, None).await });
        Ok(granted.await?.id())
    }

    /// Whether a lease is alive, which this makes it for another term.
    pub(super) async fn keep_alive(&self, id: i64) -> Result<bool, Failure> {
        let kept = self.run(|mut client| async move {
            match client.lease_keep_alive(id).await {
                Err(error) if is_lease_gone(&error) => Ok(false),
                answer => answer.map(|_| true),
            }
        });
        kept.await
    }

    pub(super) async fn claim(&self, wish: &Wish) -> Result<Claimed, Failure> {
        self.run(|client| wish.carry_out(client)).await
    }

    pub(super) async fn release(&self, key: &str, owner: Incarnation) -> Result<Release, Failure> {
        self.run(|client| release(client, key, owner)).await
    }

    /// The revision of the store's last change.
    pub(super) async fn present(&self, prefix: &str) -> Result<i64, Failure> {
        let options = || GetOptions::new().with_prefix().with_count_only();
        let answer =
            self.run(|mut client| async move { client.get(prefix, Some(options())).await });
        let header = answer.await?.header().map(etcd_client::ResponseHeader::revision);
        header.ok_or_else(|| self.malformed("an answer has no header"))
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, Failure> {
        let end = end_of(prefix);
        let mut found: Vec<KeyInfo> = Vec::new();
        // There is no empty key; the first that there can be is a single 0.
        let mut from = if prefix.is_empty() { vec![0] } else { prefix.as_bytes().to_vec() };
        loop {
            let options =
                || GetOptions::new().with_range(end.clone()).with_keys_only().with_limit(PAGE);
            let from_ = &from;
            let page = self.run(|mut client| async move {
                client.get(from_.as_slice(), Some(options())).await
            });
            let page = page.await?;
            for kv in page.kvs() {
                let key = String::from_utf8_lossy(kv.key()).into_owned();
                let revision = Some(revision(kv.mod_revision()));
                found.push(KeyInfo { key, revision, bytes: None });
            }
            match page.kvs().last() {
                Some(last) if page.more() => from = [last.key(), &[0]].concat(),
                _ => return Ok(found),
            }
            if found.len() > MAX_LISTED {
                return Err(self.malformed("it has too many keys to list"));
            }
        }
    }
}

/// The first key behind all that begin with a prefix; a single 0 is the end of all.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_behind_all_its_keys() {
        assert_eq!(end_of("a/"), b"a0");
        assert_eq!(end_of(""), [0]);
        assert_eq!(end_of("é"), [0xc3, 0xaa]);
    }
}
