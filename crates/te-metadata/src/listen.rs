//! Listening sockets: which address, which port.
//!
//! I1  The port that is told is the port that is bound: the socket given back is the one that was
//!     tried, so nothing can take the port in between.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

/// On which addresses a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ListenAddress {
    /// Every address, IPv6 and IPv4 on one socket; IPv4 only where the host has no IPv6.
    #[default]
    Any,
    /// Every IPv4 address.
    V4,
    /// Every IPv6 address and no IPv4 one.
    V6,
    /// One address.
    Ip(IpAddr),
}

/// Which port a listener takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortChoice {
    /// This one; 0 lets the kernel choose one.
    Exact(u16),
    /// Any free one of a range, starting at a random place.
    Range(PortRange),
}

/// A range of ports to choose from, both ends included.
///
/// It lies within 1024 to 65535 and outside 32768 to 60999, where kernels take the ports of
/// outgoing connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    min: u16,
    max: u16,
}

impl PortRange {
    /// A range of ports.
    ///
    /// # Errors
    /// Ends in the wrong order, below 1024, above 65535, or touching 32768 to 60999.
    pub fn new(min: u32, max: u32) -> Result<Self, PortRangeError> {
        let bad = |rule| Err(PortRangeError { min, max, rule });
        if min > max {
            return bad("the lower end is above the upper end");
        }
        if min < 1024 {
            return bad("ports below 1024 are reserved");
        }
        if min <= 60_999 && max >= 32_768 {
            return bad("ports 32768 to 60999 are for outgoing connections");
        }
        match (u16::try_from(min), u16::try_from(max)) {
            (Ok(min), Ok(max)) => Ok(Self { min, max }),
            _ => bad("ports end at 65535"),
        }
    }

    /// The lowest port.
    pub const fn min(self) -> u16 {
        self.min
    }

    /// The highest port.
    pub const fn max(self) -> u16 {
        self.max
    }

    /// Every port once, from a random one upwards and around.
    fn shuffled(self) -> impl Iterator<Item = u16> {
        let count = u32::from(self.max - self.min) + 1;
        let mut bytes = [0; 4];
        // Without randomness engines that start at once only collide more often.
        let _ = getrandom::fill(&mut bytes);
        let start = u32::from_le_bytes(bytes) % count;
        let port = move |step| u32::from(self.min) + (start + step) % count;
        (0..count).filter_map(move |step| u16::try_from(port(step)).ok())
    }
}

impl Default for PortRange {
    /// 15000 to 17000.
    fn default() -> Self {
        Self { min: 15_000, max: 17_000 }
    }
}

/// Two numbers are no range to take ports from.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{min} to {max} is no port range: {rule}")]
pub struct PortRangeError {
    min: u32,
    max: u32,
    rule: &'static str,
}

/// Why no port could be bound.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address could not be bound.
    #[error("cannot listen on {address}")]
    Address {
        /// The address with its port.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Every port of the range is taken.
    #[error("every port from {} to {} on {ip} is taken", range.min, range.max)]
    RangeTaken {
        /// The address.
        ip: IpAddr,
        /// The range.
        range: PortRange,
    },
    /// The system does not tell which port was bound.
    #[error("the bound port cannot be read")]
    Local {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The limits of a server contradict each other.
    #[error("the limits are wrong")]
    Limits(#[from] crate::LimitsError),
}

impl BindError {
    /// Whether another process holds the port or every port of the range.
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Address { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            Self::RangeTaken { .. } => true,
            Self::Local { .. } | Self::Limits(_) => false,
        }
    }
}

/// Binds and listens. `backlog` is how many connections may wait to be accepted.
///
/// Address reuse is always asked for, so that a server can restart on its port while old connections
/// of it are still fading, however it came by the port. A port on which somebody listens is refused
/// all the same.
///
/// # Errors
/// See [`BindError`].
///
/// ```
/// use te_metadata::{ListenAddress, PortChoice, PortRange, bind_listener};
///
/// let choice = PortChoice::Range(PortRange::default());
/// let listener = bind_listener(&ListenAddress::Any, choice, 128)?;
/// assert!((15000..=17000).contains(&listener.local_addr().unwrap().port()));
/// # Ok::<(), te_metadata::BindError>(())
/// ```
pub fn bind_listener(
    address: &ListenAddress,
    choice: PortChoice,
    backlog: u32,
) -> Result<TcpListener, BindError> {
    let ip = match address {
        ListenAddress::Any if has_ipv6() => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ListenAddress::Any | ListenAddress::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ListenAddress::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ListenAddress::Ip(ip) => *ip,
    };
    let options = Options {
        only_v6: *address != ListenAddress::Any,
        backlog: i32::try_from(backlog.max(1)).unwrap_or(i32::MAX),
    };
    match choice {
        PortChoice::Exact(port) => bind_one(SocketAddr::new(ip, port), &options)
            .map_err(|source| BindError::Address { address: SocketAddr::new(ip, port), source }),
        PortChoice::Range(range) => bind_in_range(ip, range, &options),
    }
}

struct Options {
    only_v6: bool,
    backlog: i32,
}

fn bind_in_range(
    ip: IpAddr,
    range: PortRange,
    options: &Options,
) -> Result<TcpListener, BindError> {
    for port in range.shuffled() {
        let address = SocketAddr::new(ip, port);
        match bind_one(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(source) => return Err(BindError::Address { address, source }),
        }
    }
    Err(BindError::RangeTaken { ip, range })
}

fn bind_one(address: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(options.only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// Whether this host can listen on IPv6 at all.
fn has_ipv6() -> bool {
    let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
    bind_one(any, &Options { only_v6: false, backlog: 1 }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::TcpStream;

    /// J21, H4: which ranges are accepted.
    #[test]
    fn j21_port_ranges() {
        assert_eq!((PortRange::default().min(), PortRange::default().max()), (15_000, 17_000));
        for (min, max) in [(61_000, 65_535), (1024, 32_767), (15_000, 17_000), (2000, 2000)] {
            assert!(PortRange::new(min, max).is_ok(), "{min} {max}");
        }
        for (min, max) in [
            (17_000, 15_000),
            (1023, 2000),
            (0, 2000),
            (30_000, 40_000),
            (1024, 65_535),
            (40_000, 50_000),
            (60_999, 61_000),
            (32_767, 32_768),
            (61_000, 65_536),
            (65_536, 70_000),
        ] {
            let error = PortRange::new(min, max).unwrap_err();
            assert!(error.to_string().contains("is no port range"), "{error}");
        }
    }

    /// Three neighbouring ports that nobody holds.
    fn free_range() -> PortRange {
        let first = 1024 + std::process::id() % 8192 * 3;
        let range = |base| PortRange::new(base, base + 2).unwrap();
        let is_free = |range: &PortRange| {
            let port = |port| bind_listener(&ListenAddress::Any, PortChoice::Exact(port), 1);
            (range.min..=range.max).all(|number| port(number).is_ok())
        };
        (first..first + 3000).step_by(3).map(range).find(is_free).unwrap()
    }

    /// FB09: ports come from binding. A range of three gives three listeners and then a clear end.
    #[test]
    fn fb09_a_range_is_used_up_to_its_last_port() {
        let range = free_range();
        let bind = || {
            let lo = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
            bind_listener(&lo, PortChoice::Range(range), 8)
        };
        let listeners: Vec<TcpListener> = (0..3).map(|_| bind().unwrap()).collect();
        let ports: HashSet<u16> =
            listeners.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert_eq!(ports, (range.min..=range.max).collect());
        let error = bind().unwrap_err();
        assert!(error.is_in_use());
        let (min, max) = (range.min, range.max);
        let text = format!("every port from {min} to {max} on 127.0.0.1 is taken");
        assert_eq!(error.to_string(), text);
        for listener in &listeners {
            TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        }
    }

    #[test]
    fn an_exact_port_that_is_taken_is_an_error_with_the_address() {
        let first = bind_listener(&ListenAddress::V4, PortChoice::Exact(0), 8).unwrap();
        let port = first.local_addr().unwrap().port();
        let error = bind_listener(&ListenAddress::V4, PortChoice::Exact(port), 8).unwrap_err();
        assert!(error.is_in_use());
        assert!(error.to_string().contains(&format!("0.0.0.0:{port}")), "{error}");
    }

    #[test]
    fn any_accepts_both_families() {
        let listener = bind_listener(&ListenAddress::Any, PortChoice::Exact(0), 8).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        if has_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        }
    }
}
