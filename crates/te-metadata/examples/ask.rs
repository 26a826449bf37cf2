//! Asks a peer for its descriptor and whether it is alive: `ask HOST:PORT`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use te_metadata::{AddressFamily, Directory, Notify, PeerClient, PeerLimits, SegmentName};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).ok_or("usage: ask HOST:PORT")?;
    let client = PeerClient::new(PeerLimits::default(), AddressFamily::Any);
    let found = Directory::p2p(client.clone()).fetch(&SegmentName::parse(&text)?, b"{}")?;
    println!("{}", String::from_utf8(found.descriptor.encode())?);
    println!("alive within {:?}", client.probe(&found.rpc, Duration::from_secs(2))?);
    let note = Notify { name: "ask".to_owned(), msg: "hello".to_owned() };
    client.notify(&found.rpc, &note)?;
    println!("took a notification");
    Ok(())
}
