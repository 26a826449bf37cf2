//! A host and perhaps a port.
//!
//! I1  The host is kept without brackets; a scope id (`fe80::1%eth0`) belongs to the host.
//! I2  Printing brackets an IPv6 host exactly when a port follows, never twice.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use thiserror::Error;

/// The address of a peer: a host name or IP literal and perhaps a port.
///
/// ```
/// use te_metadata::HostPort;
///
/// let address = HostPort::parse("[::1]:12001").unwrap();
/// assert_eq!((address.host(), address.port()), ("::1", Some(12001)));
/// assert_eq!(address.to_string(), "[::1]:12001");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    host: Box<str>,
    port: Option<u16>,
}

impl HostPort {
    /// An address from its parts; brackets around an IPv6 host are dropped.
    ///
    /// # Errors
    /// A host that is empty, too long, or holds a character no host has; port 0.
    pub fn new(host: &str, port: Option<u16>) -> Result<Self, ParseAddressError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        check_host(bare.unwrap_or(host), bare.is_some())?;
        if port == Some(0) {
            return Err(ParseAddressError::BadPort { text: "0".to_owned() });
        }
        Ok(Self { host: bare.unwrap_or(host).into(), port })
    }

    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 literal, with or without a
    /// scope id.
    ///
    /// # Errors
    /// Anything else, and a port that is not 1 to 65535 in plain digits.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        let (host, port) = split(text)?;
        let port = port.map(parse_port).transpose()?;
        Self::new(host, port)
    }

    /// Reads an address the way Mooncake reads segment names: the host is kept, and a port that
    /// is missing or wrong becomes `default_port`. The error of a wrong part comes along, to be
    /// logged by the caller; a missing port is no error.
    pub fn parse_lenient(text: &str, default_port: u16) -> (Self, Option<ParseAddressError>) {
        match Self::parse(text) {
            Ok(address) => (address.with_port_if_none(default_port), None),
            Err(error) => {
                let host = split(text).map_or(text, |(host, _)| host);
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                (Self { host: bare.into(), port: Some(default_port) }, Some(error))
            }
        }
    }

    /// The host, without brackets, with its scope id.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if the address has one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The port, or `default` where the address has none.
    pub fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }

    /// The same host with this port; 0 takes the port away.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self { host: self.host.clone(), port: (port != 0).then_some(port) }
    }

    /// Whether the address was written with a port.
    pub fn has_explicit_port(&self) -> bool {
        self.port.is_some()
    }

    /// Whether both name the same host by text: ASCII case does not count, ports do not count.
    /// Two names of one machine are different hosts here.
    pub fn is_same_host(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The host as an IP address, when it is a literal without a scope id.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Every socket address of the host in `family`, in the order of the system's resolver.
    ///
    /// Blocks as long as the resolver does; a literal never blocks.
    ///
    /// # Errors
    /// What the resolver says; `NotFound` when the host has no address in that family.
    pub fn resolve(&self, default_port: u16, family: AddressFamily) -> io::Result<Vec<SocketAddr>> {
        let port = self.port_or(default_port);
        let found: Vec<SocketAddr> = match self.ip() {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None => (&*self.host, port).to_socket_addrs()?.collect(),
        };
        let fitting: Vec<_> = found.into_iter().filter(|found| family.takes(found)).collect();
        if fitting.is_empty() {
            let text = format!("host {} has no {family} address", self.host);
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(fitting)
    }

    fn with_port_if_none(self, port: u16) -> Self {
        Self { port: self.port.or(Some(port)), ..self }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl FromStr for HostPort {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        let port = (address.port() != 0).then_some(address.port());
        Self { host: address.ip().to_string().into(), port }
    }
}

/// Which addresses of a host are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum AddressFamily {
    /// All of them, in the resolver's order.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl AddressFamily {
    fn takes(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

impl fmt::Display for AddressFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "IP",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseAddressError {
    /// There is no host.
    #[error("the address has no host")]
    EmptyHost,
    /// The host cannot be one.
    #[error("\"{text}\" is no host name and no IP address")]
    BadHost {
        /// The host as written, cut to 80 characters.
        text: String,
    },
    /// The port is not 1 to 65535 in plain digits.
    #[error("\"{text}\" is no port, expected 1 to 65535")]
    BadPort {
        /// The port as written, cut to 80 characters.
        text: String,
    },
    /// A bracket is missing, or something else than `:port` follows it.
    #[error("brackets of \"{text}\" do not match, expected [IPv6] or [IPv6]:port")]
    BadBrackets {
        /// The text, cut to 80 characters.
        text: String,
    },
}

impl ParseAddressError {
    /// Whether only the port is wrong, so that a default port could stand in.
    pub fn is_port_only(&self) -> bool {
        matches!(self, Self::BadPort { .. })
    }
}

/// Reads a port: 1 to 65535, digits only.
pub(super) fn parse_port(text: &str) -> Result<u16, ParseAddressError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port != 0 => Ok(port),
        _ => Err(ParseAddressError::BadPort { text: shortened(text) }),
    }
}

/// Cuts a text into host and port text; the port may be any text.
fn split(text: &str) -> Result<(&str, Option<&str>), ParseAddressError> {
    if text.starts_with('[') {
        return split_brackets(text);
    }
    if is_v6(text) {
        return Ok((text, None));
    }
    Ok(match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    })
}

fn split_brackets(text: &str) -> Result<(&str, Option<&str>), ParseAddressError> {
    let bad = || ParseAddressError::BadBrackets { text: shortened(text) };
    let end = text.find(']').ok_or_else(bad)?;
    let (host, rest) = text.split_at(end + 1);
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(bad()),
    }
}

/// Whether the text is an IPv6 literal, perhaps with a scope id that has no colon.
fn is_v6(text: &str) -> bool {
    let (address, scope) = match text.split_once('%') {
        Some((address, scope)) => (address, Some(scope)),
        None => (text, None),
    };
    let scope_fits =
        scope.is_none_or(|scope| !scope.is_empty() && !scope.contains([':', '%', ']']));
    scope_fits && address.parse::<Ipv6Addr>().is_ok()
}

fn check_host(host: &str, bracketed: bool) -> Result<(), ParseAddressError> {
    if host.is_empty() {
        return Err(ParseAddressError::EmptyHost);
    }
    let needs_v6 = bracketed || host.contains([':', '%']);
    let allowed = |c: char| c.is_ascii_graphic() && !"[]/@\"\\<>".contains(c);
    let fits = host.len() <= MAX_HOST_BYTES && host.chars().all(allowed);
    if !fits || (needs_v6 && !is_v6(host)) {
        return Err(ParseAddressError::BadHost { text: shortened(host) });
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// A DNS name has at most 253 bytes; a scoped literal is shorter.
const MAX_HOST_BYTES: usize = 253;
