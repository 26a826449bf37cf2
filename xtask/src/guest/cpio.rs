//! Writing a cpio archive in the form that the kernel unpacks as its first file system.
//!
//! The form is "newc": a header of hexadecimal numbers, a name, the bytes, each padded to 4. Times
//! and owners are 0, so that the same content gives the same bytes. The kernel unpacks several
//! archives that follow one another, later ones over earlier ones.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context as _, ensure};

/// An archive that is being written.
#[derive(Debug)]
pub(crate) struct Archive<W> {
    to: W,
    /// Folders that are in it.
    folders: BTreeSet<String>,
    n_entries: u32,
    n_bytes: usize,
}

impl<W: Write> Archive<W> {
    /// Begins an archive.
    pub(crate) fn new(to: W) -> Self {
        Self { to, folders: BTreeSet::new(), n_entries: 0, n_bytes: 0 }
    }

    /// Adds a folder and those above it, unless they are there.
    pub(crate) fn folder(&mut self, path: &str) -> anyhow::Result<()> {
        let name = inside(path)?;
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for end in ends {
            let part = &name[..end];
            if !part.is_empty() && self.folders.insert(part.to_owned()) {
                self.entry(part, 0o040_755, &[])?;
            }
        }
        Ok(())
    }

    /// Adds a file with these permission bits.
    pub(crate) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> anyhow::Result<()> {
        self.above(path)?;
        self.entry(inside(path)?, 0o100_000 | (mode & 0o7777), bytes)
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> anyhow::Result<()> {
        self.above(path)?;
        self.entry(inside(path)?, 0o120_777, target.as_bytes())
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> anyhow::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.pad(512)?;
        self.to.flush().context("the archive cannot be written")?;
        Ok(self.to)
    }

    fn above(&mut self, path: &str) -> anyhow::Result<()> {
        match inside(path)?.rsplit_once('/') {
            Some((folder, _)) => self.folder(folder),
            None => Ok(()),
        }
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) -> anyhow::Result<()> {
        self.n_entries += 1;
        let length = u32::try_from(bytes.len()).ok();
        let length = length.with_context(|| format!("{name} is too large for an archive"))?;
        let name_length = u32::try_from(name.len() + 1).context("the length of a name fits")?;
        let n_links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        // Inode, mode, owner, group, links, time, size, two device numbers twice, name, checksum.
        let fields = [self.n_entries, mode, 0, 0, n_links, 0, length, 0, 0, 0, 0, name_length, 0];
        let header: String = fields.iter().map(|field| format!("{field:08X}")).collect();
        self.put(b"070701")?;
        self.put(header.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(b"\0")?;
        self.pad(4)?;
        self.put(bytes)?;
        self.pad(4)
    }

    fn put(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.n_bytes += bytes.len();
        self.to.write_all(bytes).context("the archive cannot be written")
    }

    fn pad(&mut self, to: usize) -> anyhow::Result<()> {
        let missing = self.n_bytes.next_multiple_of(to) - self.n_bytes;
        self.put(&vec![0; missing])
    }
}

/// The name inside an archive of an absolute or relative path.
fn inside(path: &str) -> anyhow::Result<&str> {
    let name = path.trim_matches('/');
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    ensure!(name.is_empty() || !name.split('/').any(odd), "`{path}` is no plain path");
    ensure!(!name.contains('\0'), "`{path}` has a zero byte");
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, modes and bytes of an archive, read by the description of the form.
    fn read(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut entries = Vec::new();
        loop {
            assert_eq!(&archive[at..at + 6], b"070701");
            let field = |index: usize| {
                let from = at + 6 + 8 * index;
                let text = std::str::from_utf8(&archive[from..from + 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = &archive[at + 110..at + 110 + name_size - 1];
            let from = (at + 110 + name_size).next_multiple_of(4);
            let name = String::from_utf8(name.to_vec()).unwrap();
            if name == "TRAILER!!!" {
                assert_eq!(archive.len() % 512, 0);
                return entries;
            }
            entries.push((name, mode, archive[from..from + size].to_vec()));
            at = (from + size).next_multiple_of(4);
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_once() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/usr/bin/x", 0o755, b"abc").unwrap();
        archive.link("/usr/bin/y", "x").unwrap();
        archive.folder("usr/lib").unwrap();
        let entries = read(&archive.finish().unwrap());
        let told: Vec<_> = entries.iter().map(|(n, m, b)| (n.as_str(), *m, b.as_slice())).collect();
        assert_eq!(
            told,
            [
                ("usr", 0o040_755, &b""[..]),
                ("usr/bin", 0o040_755, b""),
                ("usr/bin/x", 0o100_755, b"abc"),
                ("usr/bin/y", 0o120_777, b"x"),
                ("usr/lib", 0o040_755, b""),
            ]
        );
    }

    #[test]
    fn every_length_of_name_and_content_stays_aligned() {
        let mut archive = Archive::new(Vec::new());
        for n in 1..9 {
            archive.file(&"n".repeat(n), 0o644, &vec![b'c'; n * 3]).unwrap();
        }
        let entries = read(&archive.finish().unwrap());
        let lengths: Vec<_> = entries.iter().map(|(n, _, b)| (n.len(), b.len())).collect();
        assert_eq!(lengths, (1..9).map(|n| (n, n * 3)).collect::<Vec<_>>());
    }

    #[test]
    fn a_path_that_leaves_the_archive_is_refused() {
        let mut archive = Archive::new(Vec::new());
        for path in ["../x", "a/../b", "a//b", "./a", "a\0b"] {
            assert!(archive.file(path, 0o644, b"").is_err(), "{path}");
        }
    }

    #[test]
    fn the_system_reads_it() {
        let mut archive = Archive::new(Vec::new());
        archive.file("a/b", 0o640, b"hello").unwrap();
        let one = archive.finish().unwrap();
        assert_eq!(one.len() % 512, 0, "another archive may follow");
    }
}
