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
    /// The file that is the peer's memory: bytes are carried by another process, see `courier.rs`.
    pub(crate) courier: Option<PathBuf>,
}

impl Arguments {
    /// Reads pairs of a flag and its value.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let host = "127.0.0.1".to_owned();
        let metadata = "P2PHANDSHAKE".to_owned();
        let (port, file, at, courier) = (None, None, None, None);
        let (size, margin, more) = (1 << 20, 0, 0);
        let mut parsed = Self { host, size, port, file, at, margin, metadata, more, courier };
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
                "--courier" => parsed.courier = Some(value.into()),
                "--file" => parsed.file = Some(value.into()),
                _ => return Err(format!("{flag} is not an argument of te-node")),
            }
        }
        Ok(parsed)
    }
}
