//! A redb file: each commit is one transaction, synchronised before it is acknowledged.

use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use crate::storage::{Change, Changes, Loaded, Storage, StorageError, record};

/// A data file.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    database: Option<Database>,
}

impl Disk {
    /// Names the file; [`Storage::load`] opens it.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), database: None }
    }

    fn open(&mut self) -> Result<&Database, StorageError> {
        // A data base that met an I/O error refuses everything until it is opened again, and a
        // file can be opened only once.
        self.database = None;
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        Ok(self.database.insert(builder.create(&self.path).map_err(not_opened)?))
    }
}

impl Storage for Disk {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        let database = self.open()?;
        make_tables(database).map_err(io("prepare"))??;
        read_all(database).map_err(io("read"))?
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), StorageError> {
        let closed = || StorageError::Foreign { what: "it was never opened".to_owned() };
        let database = self.database.as_ref().ok_or_else(closed)?;
        write(database, changes).map_err(io("write"))
    }
}

/// Everything is in the catalog; a cache would only hold it a second time.
const CACHE: usize = 8 << 20;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

const FORMAT: u64 = 1;

/// Makes what a new file lacks, and looks whether an old one is ours.
fn make_tables(database: &Database) -> Result<Result<(), StorageError>, redb::Error> {
    let transaction = database.begin_write()?;
    let format = {
        transaction.open_table(ENTRIES)?;
        let mut numbers = transaction.open_table(NUMBERS)?;
        let found = numbers.get("format")?.map(|found| found.value());
        if found.is_none() {
            numbers.insert("format", FORMAT)?;
        }
        found.unwrap_or(FORMAT)
    };
    if format != FORMAT {
        let what = format!("its format is {format}, this program knows {FORMAT}");
        return Ok(Err(StorageError::Foreign { what }));
    }
    transaction.commit()?;
    Ok(Ok(()))
}

fn read_all(database: &Database) -> Result<Result<Loaded, StorageError>, redb::Error> {
    let transaction = database.begin_read()?;
    let revision =
        transaction.open_table(NUMBERS)?.get("revision")?.map(|revision| revision.value());
    let mut records = Vec::new();
    for row in transaction.open_table(ENTRIES)?.iter()? {
        let (key, bytes) = row?;
        let Some(record) = record::decode(bytes.value()) else {
            let what = format!("the record of {:?} cannot be read", key.value());
            return Ok(Err(StorageError::Foreign { what }));
        };
        records.push((key.value().to_owned(), record));
    }
    Ok(Ok(Loaded { revision, records }))
}

fn write(database: &Database, changes: &Changes) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut entries = transaction.open_table(ENTRIES)?;
        for change in &changes.list {
            match change {
                Change::Put { key, record } => {
                    entries.insert(&**key, record::encode(record).as_slice())?;
                }
                Change::Delete { key } => {
                    entries.remove(&**key)?;
                }
            }
        }
        transaction.open_table(NUMBERS)?.insert("revision", changes.revision)?;
    }
    transaction.commit()?;
    Ok(())
}

fn not_opened(error: DatabaseError) -> StorageError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => StorageError::InUse,
        DatabaseError::UpgradeRequired(version) => {
            StorageError::Foreign { what: format!("version {version} of its data base is too old") }
        }
        // What is no data base at all is told as data that cannot be right.
        DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            StorageError::Foreign { what: error.to_string() }
        }
        DatabaseError::Storage(redb::StorageError::Corrupted(what)) => {
            StorageError::Foreign { what }
        }
        other => io("open")(other.into()),
    }
}

fn io(action: &'static str) -> impl Fn(redb::Error) -> StorageError {
    move |source| StorageError::Io { action, source: Box::new(source) }
}
