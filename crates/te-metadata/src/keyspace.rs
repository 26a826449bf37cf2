//! Keys of the metadata store.

use crate::{ChunkDigest, SegmentName};

/// The part of a store's key space that one cluster uses.
///
/// ```
/// use te_metadata::{KeySpace, SegmentName};
///
/// let keys = KeySpace::new(Some("east"));
/// let name = SegmentName::parse("node-a").unwrap();
/// assert_eq!(keys.segment(&name), "mooncake/east/ram/node-a");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpace {
    prefix: String,
}

impl KeySpace {
    /// The keys of a cluster; `None` and an empty id are the common space.
    pub fn new(cluster_id: Option<&str>) -> Self {
        let prefix = match cluster_id {
            None | Some("") => "mooncake/".to_owned(),
            Some(id) if id.ends_with('/') => format!("mooncake/{id}"),
            Some(id) => format!("mooncake/{id}/"),
        };
        Self { prefix }
    }

    /// Where the address record of a segment's owner stands.
    pub fn rpc_meta(&self, name: &SegmentName) -> String {
        format!("{}rpc_meta/{name}", self.prefix)
    }

    /// Where the descriptor of a segment stands. A name that has a slash gets no `ram/`.
    pub fn segment(&self, name: &SegmentName) -> String {
        let kind = if name.as_str().contains('/') { "" } else { "ram/" };
        format!("{}{kind}{name}", self.prefix)
    }

    /// Where a further part of a descriptor stands. Only our own engines look there.
    pub fn chunk(&self, name: &SegmentName, digest: ChunkDigest) -> String {
        format!("{}te_chunk/{digest}/{name}", self.prefix)
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B10 to B12: keys as captured from etcd.
    #[test]
    fn b10_keys_are_those_that_were_captured() {
        let key = |id, name: &str| {
            let (keys, name) = (KeySpace::new(id), SegmentName::parse(name).unwrap());
            (keys.segment(&name), keys.rpc_meta(&name))
        };
        let (ram, rpc) = key(None, "node-a:17001");
        assert_eq!(ram, "mooncake/ram/node-a:17001");
        assert_eq!(rpc, "mooncake/rpc_meta/node-a:17001");
        let (ram, rpc) = key(Some("clusterx"), "node-b");
        assert_eq!(ram, "mooncake/clusterx/ram/node-b");
        assert_eq!(rpc, "mooncake/clusterx/rpc_meta/node-b");
        let (ram, rpc) = key(Some(""), "rack1/node-c");
        assert_eq!(ram, "mooncake/rack1/node-c");
        assert_eq!(rpc, "mooncake/rpc_meta/rack1/node-c");
        assert_eq!(key(Some("x/"), "n"), key(Some("x"), "n"));
    }
}
