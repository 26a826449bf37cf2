//! A handshake port in front of a node's own: it passes questions on and changes what is said of
//! the data port, so that a proxy stands in the data path of whoever opens its name.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use super::PATIENCE;
use super::handshake::{Frame, HandshakeAnswer, HandshakeClient, read_request};
use super::proxy::{Fault, Proxy};
use crate::clock::pace;
use crate::node::Node;

/// The running front. Its threads end with the process.
#[derive(Debug)]
pub struct Front {
    name: String,
    proxy: Arc<Proxy>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rpc_port: AtomicU16,
    muted: AtomicBool,
}

impl Front {
    /// Starts one in front of a node that listens on 127.0.0.1. A node that starts again under its
    /// name is found again.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(node: &Node, fault: Fault) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let name = format!("127.0.0.1:{}", listener.local_addr()?.port());
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
        let proxy = Arc::new(Proxy::start(nowhere, fault)?);
        let shared = Arc::new(Shared {
            rpc_port: AtomicU16::new(node.rpc_port()),
            muted: AtomicBool::new(false),
        });
        let (passing, at) = (Arc::clone(&shared), Arc::clone(&proxy));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (passing, at) = (Arc::clone(&passing), Arc::clone(&at));
                // A question that cannot be passed on shows as a closed connection.
                std::thread::spawn(move || drop(passing.pass(client, &at)));
            }
        });
        Ok(Self { name, proxy, shared })
    }

    /// The name by which an engine opens it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The proxy in the data path.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// With true, questions are taken and not answered any more.
    pub fn mute(&self, muted: bool) {
        self.shared.muted.store(muted, Ordering::Relaxed);
    }
}

impl Shared {
    fn pass(&self, mut client: TcpStream, proxy: &Proxy) -> io::Result<()> {
        client.set_read_timeout(Some(PATIENCE))?;
        let (kind, body) = read_request(&mut client)?;
        while self.muted.load(Ordering::Relaxed) {
            pace(Duration::from_millis(5));
        }
        let port = self.rpc_port.load(Ordering::Relaxed);
        let answer = HandshakeClient::new("127.0.0.1", port).ask(&Frame::typed(kind, &body))?;
        let HandshakeAnswer::Framed(kind, mut body) = answer else { return Ok(()) };
        if kind == 1 {
            body = redirect(&body, proxy)?;
        }
        client.write_all(Frame::typed(kind, &body).bytes())
    }
}

/// Puts the proxy's port in the place of the data port, and shows the proxy where that is.
fn redirect(body: &[u8], proxy: &Proxy) -> io::Result<Vec<u8>> {
    let mut descriptor: serde_json::Value = serde_json::from_slice(body)?;
    let port = descriptor["tcp_data_port"].as_u64().and_then(|port| port.try_into().ok());
    proxy.lead_to(SocketAddr::from(([127, 0, 0, 1], port.ok_or(io::ErrorKind::InvalidData)?)));
    descriptor["tcp_data_port"] = proxy.port().into();
    Ok(descriptor.to_string().into_bytes())
}
