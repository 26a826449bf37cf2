//! The host and the port of a local name.

/// Takes a port from the end of a name. A text whose port is none is all host, with port 0.
pub(crate) fn host_and_port(text: &str) -> (&str, u64) {
    let inside = text.strip_prefix('[').map(|rest| rest.split_once("]:"));
    let parts = match inside {
        Some(bracketed) => bracketed,
        None => text.rsplit_once(':').filter(|(host, _)| !host.is_empty()),
    };
    let read = |(host, port): (_, &str)| port.parse().ok().map(|port| (host, port));
    parts.and_then(read).unwrap_or((text, 0))
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn j77_names_are_parted_as_the_peers_binding_does() {
        // J77: IPv4, no port, a port that is none, IPv6 in brackets.
        let checks = [
            ("127.0.0.1:12345", ("127.0.0.1", 12345)),
            ("localhost", ("localhost", 0)),
            ("host:notaport", ("host:notaport", 0)),
            ("[::1]:12345", ("::1", 12345)),
            ("[::1]", ("[::1]", 0)),
            ("[::1]:x", ("[::1]:x", 0)),
            (":1", (":1", 0)),
            ("", ("", 0)),
        ];
        for (text, parted) in checks {
            assert_eq!(host_and_port(text), parted, "{text}");
        }
    }
}
