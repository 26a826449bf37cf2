//! The text files of the workspace, read once.

use std::path::Path;

use anyhow::Context as _;

/// One text file.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// From the top of the workspace, with `/`.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

/// All text files, by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<TextFile>,
    /// Every path that exists, folders too, for links.
    paths: Vec<String>,
}

/// Folders that hold no source of ours.
const SKIPPED: &[&str] = &["target", ".git", "__pycache__", "node_modules", "shared"];

impl Tree {
    /// Reads the tree below `root`.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree made by a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        Self { files: files.iter().map(file).collect(), paths }
    }

    /// The files.
    pub(crate) fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Whether there is a file or folder of this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|there| there == path)
    }

    fn folder(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let told = || format!("cannot read the folder {}", folder.display());
        for entry in std::fs::read_dir(folder).with_context(told)? {
            let entry = entry.with_context(told)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(told)?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.paths.push(path.clone());
                self.folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.paths.push(path.clone());
                self.file(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    /// Reads one file; what is no text is left out.
    fn file(&mut self, at: &Path, path: String) -> anyhow::Result<()> {
        let bytes = std::fs::read(at).with_context(|| format!("cannot read {path}"))?;
        if let (true, Ok(text)) = (is_text(&path), String::from_utf8(bytes)) {
            self.files.push(TextFile { path, text });
        }
        Ok(())
    }
}

fn is_text(path: &str) -> bool {
    let endings = [".rs", ".md", ".toml", ".tsv", ".py", ".sh"];
    path == ".ci/run" || endings.iter().any(|ending| path.ends_with(ending))
}
