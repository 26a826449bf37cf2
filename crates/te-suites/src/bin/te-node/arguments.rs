//! The command line.

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The local name.
    pub(crate) host: String,
    /// Bytes of the buffer that is registered at the start.
    pub(crate) size: u64,
    /// A fixed handshake port.
    pub(crate) port: Option<u16>,
}

impl Arguments {
    /// Reads pairs of a flag and its value.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self { host: "127.0.0.1".to_owned(), size: 1 << 20, port: None };
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let bad = || format!("{flag} {value} is not a number in range");
            match flag.as_str() {
                "--host" => parsed.host = value,
                "--size" => parsed.size = value.parse().map_err(|_| bad())?,
                "--port" => parsed.port = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(format!("{flag} is not an argument of te-node")),
            }
        }
        Ok(parsed)
    }
}
