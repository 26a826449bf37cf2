//! Texts that say which store: te-classic rows B1, B2, B6 to B8.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{DEFAULT_PEER_PORT, HostPort, ParseAddressError};

/// The text that means: no store, peers are asked.
const P2P: &str = "P2PHANDSHAKE";
/// The port of an etcd whose address tells none.
const ETCD_PORT: u16 = 2379;
/// Most endpoints of an etcd that are taken.
const MAX_ENDPOINTS: usize = 64;

/// Which store.
///
/// ```
/// use te_metadata::StoreUri;
///
/// let uri: StoreUri = "etcd://10.0.0.1:2379;10.0.0.2".parse().unwrap();
/// assert_eq!(uri.to_string(), "etcd://10.0.0.1:2379,10.0.0.2:2379");
/// assert_eq!(StoreUri::parse("P2PHANDSHAKE").unwrap(), StoreUri::P2p);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUri {
    /// `P2PHANDSHAKE`: there is none, segments are asked from their owners.
    P2p,
    /// `etcd://host:port,host:port…`, `etcds://…` with encryption, or a bare `host:port`.
    Etcd {
        /// The endpoints, each with its port; at least one.
        endpoints: Vec<HostPort>,
        /// Whether to encrypt.
        is_encrypted: bool,
    },
    /// `http://host:port/path` and `https://…`.
    Http {
        /// The server.
        address: HostPort,
        /// The path of the metadata, from its slash on, perhaps with a query.
        path: String,
        /// Whether to encrypt.
        is_encrypted: bool,
    },
    /// `redis://host:port`.
    Redis {
        /// The server, with its port.
        address: HostPort,
    },
}

impl StoreUri {
    /// Reads a text. An address without a port gets etcd's 2379, HTTP's 80 or 443, and on redis
    /// 12001, as with Mooncake.
    ///
    /// # Errors
    /// See [`ParseStoreUriError`].
    pub fn parse(text: &str) -> Result<Self, ParseStoreUriError> {
        let text = text.trim();
        if text == P2P {
            return Ok(Self::P2p);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("etcd", text));
        if rest.is_empty() {
            return Err(ParseStoreUriError::Empty);
        }
        if authority(rest).contains('@') {
            return Err(ParseStoreUriError::Credentials { scheme: scheme.to_owned() });
        }
        match scheme {
            "etcd" | "etcds" => etcd(rest, scheme == "etcds"),
            "http" | "https" => http(rest, scheme == "https"),
            "redis" => Ok(Self::Redis { address: address(bare(rest)?, DEFAULT_PEER_PORT)? }),
            other => Err(ParseStoreUriError::UnknownScheme { scheme: shortened(other) }),
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::P2p => P2P,
            Self::Etcd { is_encrypted: false, .. } => "etcd",
            Self::Etcd { is_encrypted: true, .. } => "etcds",
            Self::Http { is_encrypted: false, .. } => "http",
            Self::Http { is_encrypted: true, .. } => "https",
            Self::Redis { .. } => "redis",
        }
    }
}

fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// An address behind which nothing but a slash may stand.
fn bare(rest: &str) -> Result<&str, ParseStoreUriError> {
    let address = rest.strip_suffix('/').unwrap_or(rest);
    match address.find(['/', '?', '#']) {
        None => Ok(address),
        Some(at) => Err(ParseStoreUriError::Trailing { text: shortened(&address[at..]) }),
    }
}

fn address(text: &str, default_port: u16) -> Result<HostPort, ParseStoreUriError> {
    let bad = |source| ParseStoreUriError::BadAddress { address: shortened(text), source };
    let parsed = HostPort::parse(text.trim()).map_err(bad)?;
    Ok(parsed.with_port(parsed.port_or(default_port)))
}

fn etcd(rest: &str, is_encrypted: bool) -> Result<StoreUri, ParseStoreUriError> {
    let parts = bare(rest)?.split([',', ';']).filter(|part| !part.trim().is_empty());
    let endpoints: Result<Vec<_>, _> =
        parts.take(MAX_ENDPOINTS).map(|part| address(part, ETCD_PORT)).collect();
    let endpoints = endpoints?;
    if endpoints.is_empty() {
        return Err(ParseStoreUriError::Empty);
    }
    Ok(StoreUri::Etcd { endpoints, is_encrypted })
}

fn http(rest: &str, is_encrypted: bool) -> Result<StoreUri, ParseStoreUriError> {
    let host = authority(rest);
    let path = rest[host.len()..].split('#').next().unwrap_or_default();
    if let Some(at) = path.find(|c: char| c.is_control() || c == ' ' || !c.is_ascii()) {
        return Err(ParseStoreUriError::Trailing { text: shortened(&path[at..]) });
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let address = address(host, if is_encrypted { 443 } else { 80 })?;
    Ok(StoreUri::Http { address, path: format!("{slash}{path}"), is_encrypted })
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

impl FromStr for StoreUri {
    type Err = ParseStoreUriError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme();
        match self {
            Self::P2p => f.write_str(scheme),
            Self::Etcd { endpoints, .. } => {
                let texts: Vec<String> = endpoints.iter().map(HostPort::to_string).collect();
                write!(f, "{scheme}://{}", texts.join(","))
            }
            Self::Http { address, path, .. } => write!(f, "{scheme}://{address}{path}"),
            Self::Redis { address } => write!(f, "{scheme}://{address}"),
        }
    }
}

/// Why a text names no store.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseStoreUriError {
    /// There is nothing behind the scheme.
    #[error("the metadata store has no address")]
    Empty,
    /// There is no such kind of store.
    #[error(
        "there is no metadata store `{scheme}`; there are etcd://, etcds://, http://, https://, \
         redis:// and P2PHANDSHAKE"
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// User and password stand in the text, which would bring them into logs: they have settings
    /// of their own.
    #[error("credentials do not belong into the address of a metadata store ({scheme}://)")]
    Credentials {
        /// The scheme.
        scheme: String,
    },
    /// An address is none.
    #[error("the address `{address}` of the metadata store is not usable")]
    BadAddress {
        /// The address.
        address: String,
        /// What is wrong.
        #[source]
        source: ParseAddressError,
    },
    /// Something stands behind the address that means nothing there.
    #[error("`{text}` means nothing in the address of a metadata store")]
    Trailing {
        /// The text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(StoreUri::parse(text).unwrap().to_string(), expected, "{text}");
    }

    /// B1, B6 to B8: the forms and their default ports.
    #[test]
    fn b01_every_form_is_read() {
        check("P2PHANDSHAKE", "P2PHANDSHAKE");
        check("etcd://a:1", "etcd://a:1");
        check("etcd://a:1,b:2;[::1]:3", "etcd://a:1,b:2,[::1]:3");
        check("a:1", "etcd://a:1");
        check("10.0.0.1", "etcd://10.0.0.1:2379");
        check("etcds://a", "etcds://a:2379");
        check("http://a:8080/metadata", "http://a:8080/metadata");
        check("http://a", "http://a:80/");
        check("https://[::1]/m?x=1#f", "https://[::1]:443/m?x=1");
        check("redis://a:6379", "redis://a:6379");
        check("redis://a/", "redis://a:12001");
    }

    /// B2: what Mooncake aborts for is an error here, and says what there is.
    #[test]
    fn b02_other_texts_are_errors() {
        for (text, says) in [
            ("", "no address"),
            ("etcd://", "no address"),
            ("etcd://,;", "no address"),
            ("ftp://a", "there are etcd://"),
            ("http://u:p@a/", "credentials"),
            ("redis://:p@a", "credentials"),
            ("redis://a/1", "`/1` means nothing"),
            ("etcd://a:x", "`a:x`"),
            ("http://a:70000/", "`a:70000`"),
            ("http://a/b c", "` c` means nothing"),
        ] {
            let error = StoreUri::parse(text).unwrap_err();
            assert!(error.to_string().contains(says), "{text}: {error}");
            assert!(!error.to_string().contains("u:p"), "no secret is printed: {error}");
        }
    }
}
