//! What the guest is to do: a file in its first file system.

use anyhow::Context as _;
use serde_json::{Value, json};

/// Where the job is in the guest.
pub(crate) const JOB_PATH: &str = "/etc/te/job.json";

/// Where a program leaves files that are to come back; `TE_OUT` says so too.
pub(crate) const OUT: &str = "/out";

/// One run of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Job {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Its variables.
    pub(crate) env: Vec<(String, String)>,
    /// The folder that it starts in.
    pub(crate) folder: String,
    /// Whether it sees the whole file system of the host, instead of only what was packed.
    pub(crate) whole_host: bool,
    /// Groups of kernel modules to load.
    pub(crate) modules: Vec<String>,
    /// Words for the script that makes the RDMA links.
    pub(crate) links: Vec<String>,
    /// Whether files that it leaves in [`OUT`] come back.
    pub(crate) brings: bool,
}

impl Job {
    /// As it stands in the file.
    pub(crate) fn to_text(&self) -> String {
        let env: Vec<Value> = self.env.iter().map(|(name, value)| json!([name, value])).collect();
        json!({
            "command": self.command, "env": env, "folder": self.folder,
            "whole_host": self.whole_host, "modules": self.modules, "links": self.links,
            "brings": self.brings,
        })
        .to_string()
    }

    /// Reads the file.
    pub(crate) fn of_text(text: &str) -> anyhow::Result<Self> {
        let job: Value = serde_json::from_str(text).context("the job is no JSON")?;
        let env = job["env"].as_array().context("the job has no variables")?;
        let pair = |pair: &Value| Some((word(&pair[0])?, word(&pair[1])?));
        Ok(Self {
            command: words(&job["command"])?,
            env: env.iter().map(pair).collect::<Option<_>>().context("a variable is no pair")?,
            folder: word(&job["folder"]).context("the job has no folder")?,
            whole_host: job["whole_host"] == true,
            modules: words(&job["modules"])?,
            links: words(&job["links"])?,
            brings: job["brings"] == true,
        })
    }
}

fn words(value: &Value) -> anyhow::Result<Vec<String>> {
    let list = value.as_array().and_then(|list| list.iter().map(word).collect());
    list.context("a list of the job is missing or has no words")
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let job = Job {
            command: vec!["/a b/c".into(), "-x".into(), "ü\n'\"".into()],
            env: vec![("A".into(), "1=2".into())],
            folder: "/x".into(),
            whole_host: true,
            modules: vec!["core".into()],
            links: vec!["pairs".into(), "1".into()],
            brings: false,
        };
        assert_eq!(Job::of_text(&job.to_text()).unwrap(), job);
        assert!(Job::of_text("{}").is_err());
    }
}
