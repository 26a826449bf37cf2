//! `te segment`: what a peer says about itself.

use std::fmt::Write;

use serde_json::Value;
use te_metadata::SegmentDescriptor;

use crate::args::{Common, Segment};
use crate::error::{CliError, Failure, chain};
use crate::output;
use crate::session::{self, Opened};
use crate::units::{length, printable};

pub(crate) fn run(common: &Common, args: &Segment) -> Result<(), CliError> {
    let engine = session::client(common, None)?;
    let opened = session::open(&engine, "describe", &args.segment)?;
    session::close(&engine);
    let descriptor = opened.known.descriptor();
    if common.json {
        let value: Value = serde_json::from_slice(&descriptor.encode())
            .map_err(|error| CliError::new(Failure::Other, "describe", chain(&error)))?;
        return output::line(&format!("{value:#}"));
    }
    output::text(&table(&opened, descriptor))
}

fn table(opened: &Opened, descriptor: &SegmentDescriptor) -> String {
    let mut text = String::new();
    let mut row = |key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key:<12} {}", printable(value));
    };
    row("segment", &descriptor.name);
    row("protocol", descriptor.protocol_name());
    row("handshake", &opened.known.rpc().to_string());
    row("data", &data(opened, descriptor));
    row("engine", &engine(descriptor));
    if !descriptor.timestamp.is_empty() {
        row("written", &descriptor.timestamp);
    }
    text.push_str(&buffers(descriptor));
    text
}

fn data(opened: &Opened, descriptor: &SegmentDescriptor) -> String {
    let tcp = &descriptor.tcp;
    let host = tcp.data_host.as_deref().unwrap_or_else(|| opened.known.rpc().host());
    match tcp.data_port {
        Some(port) => {
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            format!("tcp {host}:{port}, protocol version {}", tcp.proto_version)
        }
        None => "no tcp port".to_owned(),
    }
}

fn engine(descriptor: &SegmentDescriptor) -> String {
    match &descriptor.te {
        Some(te) => format!("te, incarnation {}", te.incarnation),
        None => "not te, probably Mooncake".to_owned(),
    }
}

fn buffers(descriptor: &SegmentDescriptor) -> String {
    let list = descriptor.buffers();
    let total = list.iter().fold(0_u64, |sum, buffer| sum.saturating_add(buffer.length));
    let noun = if list.len() == 1 { "buffer" } else { "buffers" };
    let mut text = format!("\n{} {noun}, {} in all\n", list.len(), length(total));
    if !list.is_empty() {
        let _ = writeln!(text, "{:>5}  {:<18}  {:>14}  {:>9}  name", "#", "address", "bytes", "");
    }
    for (index, buffer) in list.iter().enumerate() {
        let _ = writeln!(
            text,
            "{index:>5}  {:#018x}  {:>14}  {:>9}  {}",
            buffer.addr,
            buffer.length,
            length(buffer.length),
            printable(&buffer.name)
        );
    }
    text
}
