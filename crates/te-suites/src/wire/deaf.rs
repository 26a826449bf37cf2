//! A port at which nobody ever arrives: it listens, its queue is full, and the system drops what
//! else comes, as a network does that leads nowhere.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// The port.
#[derive(Debug)]
pub struct Deaf {
    address: SocketAddr,
    _listener: Socket,
    _queue: Vec<TcpStream>,
}

impl Deaf {
    /// Opens one on 127.0.0.1.
    ///
    /// # Errors
    /// What the system says.
    pub fn start() -> io::Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        listener.listen(0)?;
        let address = listener.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            queue.push(stream);
        }
        Ok(Self { address, _listener: listener, _queue: queue })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_arrives() {
        let deaf = Deaf::start().unwrap();
        let arrived = TcpStream::connect_timeout(&deaf.address(), Duration::from_millis(300));
        assert_eq!(arrived.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
