//! What every socket of ours is given and how it is let go of, and how often complaints are told.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

/// A silent connection is asked after this long whether its other end still is.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
/// How long each such question waits.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer that end a connection.
const KEEP_ALIVE_PROBES: u32 = 3;

/// A congestion control that every system has and that does not pace.
const UNPACED: &[u8] = b"reno";
/// Bytes under way between two processes of one host, which the sender bounds: what waits at the
/// receiver's end alone is no bound, since what it has no room for waits at the sender's.
const SAME_HOST_BUFFER: usize = 1 << 20;

/// Sees to it that a connection whose other host has vanished ends, at last 90 s after it fell
/// silent.
pub(crate) fn keep_alive(socket: &SockRef<'_>) -> io::Result<()> {
    let settings = TcpKeepalive::new()
        .with_time(KEEP_ALIVE_IDLE)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_PROBES);
    socket.set_tcp_keepalive(&settings)
}

/// Suits a connection to what lies between its ends, once it stands. On one host nothing is lost
/// and nothing waits in line: pacing only costs time, and more under way than a core's cache holds
/// is fetched from memory twice. `buffer`: whether the size of its buffer was set.
pub(crate) fn suit(stream: &TcpStream, buffer: Option<usize>) {
    let same = |ours: SocketAddr, theirs: SocketAddr| ours.ip() == theirs.ip();
    if !matches!((stream.local_addr(), stream.peer_addr()), (Ok(a), Ok(b)) if same(a, b)) {
        return;
    }
    let socket = SockRef::from(stream);
    // Both are of use only; a system that refuses them serves as well.
    let _ = socket.set_tcp_congestion(UNPACED);
    if buffer.is_none() {
        let _ = socket.set_send_buffer_size(SAME_HOST_BUFFER);
    }
}

/// After so long without an answer the kernel is made to ask, the shortest time it takes.
const ASK_IDLE: Duration = Duration::from_secs(1);

/// Has the other host asked soon whether it still is, where nothing of ours waits for its answer.
pub(crate) fn ask(stream: &TcpStream) {
    set_idle(stream, ASK_IDLE);
}

/// Has it asked as seldom as usual again.
pub(crate) fn ask_no_more(stream: &TcpStream) {
    set_idle(stream, KEEP_ALIVE_IDLE);
}

fn set_idle(stream: &TcpStream, idle: Duration) {
    // Where this fails it is asked as often as before.
    let _ = SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(idle));
}

/// Ends a connection for both sides. Closing alone does so only when no forked child holds the
/// socket as well. What was sent still goes out.
pub(crate) fn shut_down(stream: &TcpStream) {
    // Where this fails the connection is gone already.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Lets a complaint through once a second and counts the rest.
#[derive(Debug)]
pub(crate) struct Throttle {
    last: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    pub(crate) fn new() -> Self {
        Self { last: None, suppressed: 0 }
    }

    /// Whether to complain now, and how many complaints were not told since the last one.
    pub(crate) fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + Duration::from_secs(1)) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as a start")]
    fn one_complaint_a_second_is_told_and_the_rest_counted() {
        let start = Instant::now();
        let mut throttle = Throttle::new();
        assert_eq!(throttle.allow(start), Some(0));
        for _ in 0..9 {
            assert_eq!(throttle.allow(start + Duration::from_millis(999)), None);
        }
        assert_eq!(throttle.allow(start + Duration::from_secs(1)), Some(9));
    }
}
