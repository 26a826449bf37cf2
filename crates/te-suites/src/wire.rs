//! Both ports of an engine spoken by hand, so that a suite can say what no engine would: clients
//! that send any bytes, a target made by hand, and a proxy that breaks what passes.
//!
//! Written from the observed format and on purpose without the product's codecs: a mistake there
//! must not hide itself here.

mod data;
mod deaf;
mod front;
mod handshake;
mod proxy;
mod relay;
mod target;

pub use data::{DataClient, Header, STATUS_OK, STATUS_REFUSED, Verdict, status_frame};
pub use deaf::Deaf;
pub use front::Front;
pub use handshake::{Frame, HandshakeAnswer, HandshakeClient, descriptor, descriptor_of};
pub use proxy::{Fault, Proxy, Seen};
pub use relay::{Relay, RelayAnswer};
pub use target::{BASE, DataManner, HandTarget, TargetSpec};

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a raw client waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A connection with read and write limits of [`PATIENCE`].
///
/// # Errors
/// What the system says.
pub fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes the next close of the stream a reset, so that neither end keeps the port.
///
/// # Errors
/// What the system says.
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// Reads exactly `len` bytes.
///
/// # Errors
/// What the system says; the end of the stream is `UnexpectedEof`.
pub fn read_exactly(stream: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
