//! What is done at an endpoint.

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, KeyValue, PutOptions, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
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

/// What a transaction found at the key, in its own answer or in that of the one inside it.
fn found(response: &TxnResponse) -> Option<KeyValue> {
    match response.op_responses().into_iter().next()? {
        TxnOpResponse::Get(mut get) => get.take_kvs().into_iter().next(),
        TxnOpResponse::Txn(inner) => found(&inner),
        _ => None,
    }
}

/// Whether the transaction put something, it or the one inside it.
fn did_put(response: &TxnResponse) -> bool {
    match response.op_responses().into_iter().next() {
        Some(TxnOpResponse::Put(_)) => true,
        Some(TxnOpResponse::Txn(inner)) => did_put(&inner),
        _ => false,
    }
}

impl Wish {
    fn put(&self) -> TxnOp {
        let options = PutOptions::new().with_lease(self.lease);
        TxnOp::put(self.key.as_str(), self.value.as_slice(), Some(options))
    }

    fn look(&self) -> TxnOp {
        TxnOp::get(self.key.as_str(), None)
    }

    /// Puts where our lease holds the record or nothing stands; else looks.
    fn first(&self) -> Txn {
        let absent = Compare::create_revision(self.key.as_str(), CompareOp::Equal, 0);
        let inner = Txn::new().when([absent]).and_then([self.put()]).or_else([self.look()]);
        let ours = Compare::lease(self.key.as_str(), CompareOp::Equal, self.lease);
        Txn::new().when([ours]).and_then([self.put()]).or_else([TxnOp::txn(inner)])
    }

    /// Puts over a record that was looked at; else looks again.
    fn over(&self, stands: i64) -> Txn {
        let same = is_at(&self.key, stands);
        Txn::new().when([same]).and_then([self.put()]).or_else([self.look()])
    }

    async fn carry_out(&self, client: Client) -> Result<Claimed, Error> {
        let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
        let mut step = self.first();
        for _ in 0..ROUNDS {
            let response = match kv.txn(step).await {
                Err(error) if is_lease_gone(&error) => return Ok(Claimed::LeaseEnded),
                response => response?,
            };
            if did_put(&response) {
                return Ok(Claimed::Held(header_revision(&response)));
            }
            step = match found(&response) {
                None => self.first(),
                Some(kv)
                    if names_owner(kv.value(), self.owner)
                        || self.over == Some(kv.mod_revision()) =>
                {
                    self.over(kv.mod_revision())
                }
                Some(kv) => return Ok(Claimed::Taken(record(kv))),
            };
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
        let mut from = prefix.as_bytes().to_vec();
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
