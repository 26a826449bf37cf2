//! The data file: what comes back, and what is refused by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Change, Changes, Disk, Storage, StorageError, record};
use crate::catalog::Record;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("te-storage-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("data.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sample(value: &'static str, revision: u64) -> Record {
    Record {
        value: Bytes::from_static(value.as_bytes()),
        revision,
        owner: Some("me".into()),
        ttl: Some(Duration::from_secs(30)),
        put_at: 1_800_000_000_000,
    }
}

fn open(path: &Path) -> Result<Disk, StorageError> {
    let mut disk = Disk::new(path);
    disk.load().map(|_| disk)
}

#[test]
fn what_was_committed_is_read_again() {
    let folder = Folder::new("again");
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    {
        let mut disk = open(&folder.file()).unwrap();
        let put = |key: &Arc<str>, value, revision| Change::Put {
            key: Arc::clone(key),
            record: sample(value, revision),
        };
        let list = vec![put(&a, "one", 1), put(&b, "two", 2), put(&a, "three", 3)];
        disk.commit(&Changes { revision: 3, list }).unwrap();
        let list = vec![Change::Delete { key: b }];
        disk.commit(&Changes { revision: 4, list }).unwrap();
    }
    let loaded = Disk::new(&folder.file()).load().unwrap();
    assert_eq!(loaded.revision, Some(4));
    assert_eq!(loaded.records, [("a".to_owned(), sample("three", 3))]);
}

#[test]
fn a_second_server_on_the_file_is_refused_by_name() {
    let folder = Folder::new("twice");
    let _first = open(&folder.file()).unwrap();
    assert!(matches!(open(&folder.file()), Err(StorageError::InUse)));
}

#[test]
fn a_file_that_is_something_else_is_refused_and_left_alone() {
    let folder = Folder::new("foreign");
    let text = "not a data base\n".repeat(1000);
    std::fs::write(folder.file(), &text).unwrap();
    let error = open(&folder.file()).unwrap_err();
    assert!(matches!(error, StorageError::Foreign { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(folder.file()).unwrap(), text);
}

#[test]
fn a_folder_that_is_not_there_is_an_error_of_the_system() {
    let error = open(Path::new("/nonexistent/te/data.redb")).unwrap_err();
    assert!(matches!(error, StorageError::Io { action: "open", .. }), "{error:?}");
}

fn records() -> impl Strategy<Value = Record> {
    let owner = proptest::option::of("[!-~]{1,40}").prop_map(|owner| owner.map(Arc::from));
    let ttl = proptest::option::of((1..u64::MAX).prop_map(Duration::from_millis));
    let value = proptest::collection::vec(any::<u8>(), 0..100).prop_map(Bytes::from);
    (value, any::<u64>(), owner, ttl, any::<u64>()).prop_map(
        |(value, revision, owner, ttl, put_at)| Record { value, revision, owner, ttl, put_at },
    )
}

proptest! {
    #[test]
    fn records_survive_their_encoding(record in records()) {
        prop_assert_eq!(record::decode(&record::encode(&record)), Some(record));
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = record::decode(&bytes);
    }
}
