//! The command line.

use std::path::PathBuf;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The local name.
    pub(crate) host: String,
    /// Bytes of the buffer that is registered at the start.
    pub(crate) size: u64,
    /// A fixed handshake port.
    pub(crate) port: Option<u16>,
    /// A file that the buffer is a mapping of.
    pub(crate) file: Option<PathBuf>,
    /// Where the buffer shall start.
    pub(crate) at: Option<u64>,
    /// Bytes at both ends of the buffer that are not registered.
    pub(crate) margin: u64,
    /// Where names lead.
    pub(crate) metadata: String,
    /// How many engines without memory there are besides, each named NAME-1, NAME-2 and so on.
    pub(crate) more: u64,
}

impl Arguments {
    /// Reads pairs of a flag and its value.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let host = "127.0.0.1".to_owned();
        let metadata = "P2PHANDSHAKE".to_owned();
        let (port, file, at) = (None, None, None);
        let mut parsed = Self { host, size: 1 << 20, port, file, at, margin: 0, metadata, more: 0 };
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let bad = || format!("{flag} {value} is not a number in range");
            match flag.as_str() {
                "--host" => parsed.host = value,
                "--size" => parsed.size = value.parse().map_err(|_| bad())?,
                "--port" => parsed.port = Some(value.parse().map_err(|_| bad())?),
                "--margin" => parsed.margin = value.parse().map_err(|_| bad())?,
                "--at" => parsed.at = Some(value.parse().map_err(|_| bad())?),
                "--metadata" => parsed.metadata = value,
                "--more" => parsed.more = value.parse().map_err(|_| bad())?,
                "--file" => parsed.file = Some(value.into()),
                _ => return Err(format!("{flag} is not an argument of te-node")),
            }
        }
        Ok(parsed)
    }
}
