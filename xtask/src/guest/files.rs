//! Files that come back from a guest, written into one folder of the host.
//!
//! I1  Nothing is written outside of that folder: a path that leaves it is refused, and links are
//!     made when all else is written, so that none is followed.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};

/// The folder of one run.
#[derive(Debug)]
pub(crate) struct Returned {
    folder: PathBuf,
    open: Option<File>,
    links: Vec<(PathBuf, String)>,
    n_files: usize,
}

impl Returned {
    /// Into this folder, which is made when the first file comes. It holds what it held before.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), open: None, links: Vec::new(), n_files: 0 }
    }

    /// A folder came.
    pub(crate) fn folder(&mut self, path: &str) -> anyhow::Result<()> {
        let path = self.inside(path)?;
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
    }

    /// A file came; its bytes follow.
    pub(crate) fn file(&mut self, mode: u32, path: &str) -> anyhow::Result<()> {
        let path = self.inside(path)?;
        let told = || format!("cannot write {}", path.display());
        // What an earlier run left there may be a link.
        let _ = fs::remove_file(&path);
        let file = File::options().write(true).create_new(true).open(&path).with_context(told)?;
        file.set_permissions(fs::Permissions::from_mode(mode & 0o777)).with_context(told)?;
        self.n_files += 1;
        self.open = Some(file);
        Ok(())
    }

    /// Bytes of the file that came last.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let file = self.open.as_mut().context("bytes of no file came back")?;
        file.write_all(bytes).context("cannot write a file that came back")
    }

    /// A symbolic link came.
    pub(crate) fn link(&mut self, path: &str, target: String) -> anyhow::Result<()> {
        self.links.push((self.inside(path)?, target));
        Ok(())
    }

    /// All has come; returns how many files there were.
    pub(crate) fn finish(self) -> anyhow::Result<usize> {
        for (path, target) in &self.links {
            let _ = fs::remove_file(path);
            symlink(target, path).with_context(|| format!("cannot link {}", path.display()))?;
        }
        Ok(self.n_files + self.links.len())
    }

    fn inside(&self, path: &str) -> anyhow::Result<PathBuf> {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        ensure!(
            !path.is_empty() && Path::new(path).components().all(plain),
            "`{path}` is no path of a file that comes back"
        );
        let whole = self.folder.join(path);
        let parent = whole.parent().context("a path below a folder has a parent")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let (real, root) = (parent.canonicalize(), self.folder.canonicalize());
        let is_inside = real.and_then(|real| root.map(|root| real.starts_with(root)));
        ensure!(is_inside.unwrap_or(false), "`{path}` leads out of {}", self.folder.display());
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("te-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn folders_files_and_links_arrive() {
        let folder = fresh("arrive");
        let mut returned = Returned::new(&folder);
        returned.folder("a/empty").unwrap();
        returned.link("a/l", "f".to_owned()).unwrap();
        returned.file(0o750, "a/f").unwrap();
        returned.bytes(b"one ").unwrap();
        returned.bytes(b"two").unwrap();
        assert_eq!(returned.finish().unwrap(), 2);
        assert_eq!(fs::read(folder.join("a/l")).unwrap(), b"one two");
        assert!(folder.join("a/empty").is_dir());
        let mode = fs::metadata(folder.join("a/f")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let folder = fresh("leave");
        let mut returned = Returned::new(&folder);
        for path in ["../x", "/etc/x", "a/../../x", "", "."] {
            assert!(returned.file(0o644, path).is_err(), "{path}");
        }
        assert!(returned.bytes(b"x").is_err());
        fs::create_dir_all(&folder).unwrap();
        symlink("/tmp", folder.join("out")).unwrap();
        assert!(returned.file(0o644, "out/x").unwrap_err().to_string().contains("leads out"));
        fs::remove_dir_all(folder).unwrap();
    }
}
