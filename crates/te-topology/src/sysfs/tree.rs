//! A tree of small files and links, on disk or in memory, with its own root.
//!
//! I1  No path leads out of the tree: links are followed here and not by the system, and an
//!     absolute link begins again at the root.
//! I2  A path that was once seen to be a folder is not looked at again: while a machine is read, its
//!     devices stay where they are, and most of the work would be walking to them.
//! I3  Reading ends: at most [`MAX_TEXT_BYTES`] of a file, [`MAX_LINKS`] links of a path and
//!     [`MAX_ENTRIES`] entries of a folder; pipes and devices are not waited for.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use te_sync::Mutex;

/// Most bytes that are read of one file; sysfs files are at most a page, `/proc` ones are longer.
const MAX_TEXT_BYTES: u64 = 4 << 20;
/// Most links on the way of one path.
const MAX_LINKS: usize = 40;
/// Most entries of one folder that are looked at.
const MAX_ENTRIES: usize = 65_536;

/// The files of `/sys` and `/proc` of some machine. Paths begin at its root, without a slash.
#[derive(Debug, Clone)]
pub struct SysTree {
    place: Place,
    /// Folders that were seen (I2).
    folders: Arc<Mutex<HashSet<String>>>,
    seen: Option<Arc<Mutex<BTreeMap<String, Entry>>>>,
}

#[derive(Debug, Clone)]
enum Place {
    Disk(PathBuf),
    Memory(BTreeMap<String, Entry>),
}

/// What is at a path; folders are there because something is in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Text(String),
    Link(String),
    Folder,
}

impl SysTree {
    /// The tree below a folder that holds `sys` and `proc`; `/` for this machine.
    pub fn on_disk(root: &Path) -> Self {
        Self { place: Place::Disk(root.to_owned()), folders: Arc::default(), seen: None }
    }

    pub(crate) fn in_memory(entries: BTreeMap<String, Entry>) -> Self {
        let mut all = entries.clone();
        for path in entries.keys() {
            let mut folder = path.as_str();
            while let Some((above, _)) = folder.rsplit_once('/') {
                all.entry(above.to_owned()).or_insert(Entry::Folder);
                folder = above;
            }
        }
        Self { place: Place::Memory(all), folders: Arc::default(), seen: None }
    }

    /// The whole text of a file; `None` if it is not there, cannot be read, or is no UTF-8 text.
    pub fn text(&self, path: &str) -> Option<String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.folder(folder)?.text(name)
    }

    /// A folder, after all links.
    pub(crate) fn folder(&self, path: &str) -> Option<Folder<'_>> {
        let path = self.resolve(path)?;
        Some(Folder { tree: self, path })
    }

    /// The path after all links, if something is there.
    pub(crate) fn resolve(&self, path: &str) -> Option<String> {
        let mut done = String::new();
        let mut todo: Vec<String> = components(path).rev().map(str::to_owned).collect();
        let mut n_links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                done.truncate(done.rfind('/').unwrap_or(0));
                continue;
            }
            let next = join(&done, &part);
            if self.folders.lock().contains(&next) {
                done = next;
                continue;
            }
            match self.entry(&next)? {
                Entry::Link(target) => {
                    n_links += 1;
                    if n_links > MAX_LINKS {
                        return None;
                    }
                    if target.starts_with('/') {
                        done.clear();
                    }
                    todo.extend(components(&target).rev().map(str::to_owned));
                }
                Entry::Text(_) => done = next,
                Entry::Folder => {
                    self.folders.lock().insert(next.clone());
                    done = next;
                }
            }
        }
        Some(done)
    }

    /// The same tree, which remembers what is looked at.
    pub(super) fn recording(&self) -> Self {
        Self { seen: Some(Arc::default()), folders: Arc::default(), ..self.clone() }
    }

    /// What was looked at and is there.
    pub(super) fn recorded(&self) -> BTreeMap<String, Entry> {
        self.seen.as_ref().map(|seen| seen.lock().clone()).unwrap_or_default()
    }

    fn record(&self, path: &str, entry: &Entry) {
        if let Some(seen) = &self.seen {
            seen.lock().insert(path.to_owned(), entry.clone());
        }
    }

    /// What is at a path that has no link before its last part. The text is empty on disk.
    pub(crate) fn entry(&self, path: &str) -> Option<Entry> {
        let entry = self.entry_unseen(path)?;
        if !matches!(entry, Entry::Text(_)) {
            self.record(path, &entry);
        }
        Some(entry)
    }

    fn entry_unseen(&self, path: &str) -> Option<Entry> {
        match &self.place {
            Place::Memory(entries) if path.is_empty() || entries.is_empty() => {
                path.is_empty().then_some(Entry::Folder)
            }
            Place::Memory(entries) => entries.get(path).cloned(),
            Place::Disk(root) => {
                let path = root.join(path);
                let kind = fs::symlink_metadata(&path).ok()?.file_type();
                if kind.is_symlink() {
                    return fs::read_link(&path).ok()?.to_str().map(|t| Entry::Link(t.to_owned()));
                }
                Some(if kind.is_dir() { Entry::Folder } else { Entry::Text(String::new()) })
            }
        }
    }

    /// The text of a file at a path without links.
    pub(crate) fn text_at(&self, path: &str) -> Option<String> {
        let text = match &self.place {
            Place::Memory(entries) => match entries.get(path)? {
                Entry::Text(text) => text.clone(),
                Entry::Link(_) | Entry::Folder => return None,
            },
            Place::Disk(root) => read_limited(&root.join(path), path.starts_with("sys/"))?,
        };
        if self.seen.is_some() {
            self.record(path, &Entry::Text(text.clone()));
        }
        Some(text)
    }

    /// The names in a folder at a path without links, sorted.
    pub(crate) fn names_at(&self, path: &str) -> Vec<String> {
        let names = self.names_unseen(path);
        if self.seen.is_some() {
            // Names tell something even if nobody looks behind them; only folders and links are kept.
            names.iter().for_each(|name| drop(self.entry(&join(path, name))));
        }
        names
    }

    fn names_unseen(&self, path: &str) -> Vec<String> {
        match &self.place {
            Place::Memory(entries) => names_in_memory(entries, path),
            Place::Disk(root) => {
                let Ok(entries) = fs::read_dir(root.join(path)) else { return Vec::new() };
                let names = entries.take(MAX_ENTRIES).filter_map(Result::ok);
                let mut names: Vec<String> =
                    names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
                names.sort_unstable();
                names
            }
        }
    }
}

/// A folder of a tree, at a path without links.
#[derive(Debug, Clone)]
pub(crate) struct Folder<'a> {
    tree: &'a SysTree,
    path: String,
}

impl<'a> Folder<'a> {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.tree.names_at(&self.path)
    }

    /// The text of a file in it without white space around; `None` also if it is empty.
    pub(crate) fn line(&self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let path = join(&self.path, name);
        self.tree.text_at(&path).or_else(|| {
            // Files that are links are rare, so they pay for the walk.
            match self.tree.entry(&path)? {
                Entry::Link(_) => self.tree.text_at(&self.tree.resolve(&path)?),
                Entry::Text(_) | Entry::Folder => None,
            }
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tree.entry(&join(&self.path, name)).is_some()
    }

    pub(crate) fn folder(&self, name: &str) -> Option<Self> {
        self.tree.folder(&join(&self.path, name))
    }
}

pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn names_in_memory(entries: &BTreeMap<String, Entry>, folder: &str) -> Vec<String> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let below = entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
    let mut names: Vec<String> = Vec::new();
    for (path, _) in below {
        let name = path[prefix.len()..].split('/').next().unwrap_or_default();
        if names.last().is_none_or(|last| last != name) && names.len() < MAX_ENTRIES {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Reads a file that is no link, without waiting for anybody.
fn read_limited(path: &Path, ends_short: bool) -> Option<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut page = [0; PAGE];
    let n = file.read(&mut page).ok()?;
    let mut bytes = page[..n].to_vec();
    if n == PAGE || n > 0 && !ends_short {
        file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).ok()?;
    }
    String::from_utf8(bytes).ok()
}

/// Files of sysfs are at most a page, and are given in one piece.
const PAGE: usize = 4096;
