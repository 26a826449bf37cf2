//! `te metadata-server`

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use te_metadata_server::{Limits, Server, ServerConfig, StartError, TlsFiles, Token};

use crate::args::Common;
use crate::error::{CliError, Failure, chain};
use crate::logging;
use crate::output;
use crate::session;
use crate::stop;
use crate::units::{parse_length, parse_seconds};

#[derive(Debug, Args)]
pub(crate) struct MetadataServer {
    /// Listen here; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Keep everything in this file [default: in memory only]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Clients must show the token that stands in this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Speak https only, with this certificate (PEM, its chain below it)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// End when standard input ends
    #[arg(long)]
    until_eof: bool,
    #[command(flatten)]
    bounds: Bounds,
}

/// What is taken from anybody. `te metadata-server -h` leaves these out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct Bounds {
    /// Silence of a connection, before or in a request's head [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    header_timeout: Option<Duration>,
    /// Time for a request's body, however it drips [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    body_timeout: Option<Duration>,
    /// Time in which a client takes no byte of its answer [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    write_timeout: Option<Duration>,
    /// Time for a TLS handshake [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    tls_timeout: Option<Duration>,
    /// Time for open requests at the end [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    shutdown_timeout: Option<Duration>,
    /// Longest wait of one watch [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    max_wait: Option<Duration>,
    /// Connections at once [default: 4096]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_connections: Option<usize>,
    /// Connections of one address at once [default: 2048]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_connections_per_address: Option<usize>,
    /// Requests of one address per second, 0 for no limit [default: 10000]
    #[arg(long, value_name = "N", hide_short_help = true)]
    requests_per_second: Option<u32>,
    /// Watches at once [default: 1024]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_watchers: Option<usize>,
    /// Bytes of one value [default: 8M]
    #[arg(long, value_name = "LENGTH", value_parser = parse_size, hide_short_help = true)]
    max_value: Option<usize>,
    /// Bytes of all bodies that are being received [default: 256M]
    #[arg(long, value_name = "LENGTH", value_parser = parse_size, hide_short_help = true)]
    max_body_bytes: Option<usize>,
    /// Keys [default: 262144]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_keys: Option<usize>,
    /// Bytes of all keys and values [default: 1G]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length, hide_short_help = true)]
    max_bytes: Option<u64>,
    /// Bytes of one key [default: 4096]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_key_length: Option<usize>,
    /// Bytes of an owner's name [default: 256]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_owner_length: Option<usize>,
    /// Shortest time to live of a key [default: 0.1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    min_ttl: Option<Duration>,
    /// Longest time to live of a key [default: 86400]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, hide_short_help = true)]
    max_ttl: Option<Duration>,
    /// Events that are kept for watchers [default: 65536]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_events: Option<usize>,
}

impl Bounds {
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        set(&mut limits.header_timeout, self.header_timeout);
        set(&mut limits.body_timeout, self.body_timeout);
        set(&mut limits.write_timeout, self.write_timeout);
        set(&mut limits.tls_timeout, self.tls_timeout);
        set(&mut limits.shutdown_timeout, self.shutdown_timeout);
        set(&mut limits.max_wait, self.max_wait);
        set(&mut limits.max_connections, self.max_connections);
        set(&mut limits.max_connections_per_address, self.max_connections_per_address);
        set(&mut limits.requests_per_second, self.requests_per_second);
        set(&mut limits.max_watchers, self.max_watchers);
        set(&mut limits.max_value, self.max_value);
        set(&mut limits.max_body_bytes, self.max_body_bytes);
        set(&mut limits.max_keys, self.max_keys);
        set(&mut limits.max_bytes, self.max_bytes);
        set(&mut limits.max_key_length, self.max_key_length);
        set(&mut limits.max_owner_length, self.max_owner_length);
        set(&mut limits.min_ttl, self.min_ttl);
        set(&mut limits.max_ttl, self.max_ttl);
        set(&mut limits.max_events, self.max_events);
        limits
    }
}

fn set<T>(limit: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *limit = given;
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    usize::try_from(parse_length(text)?).map_err(|_| "that is too much for this machine".to_owned())
}

pub(crate) fn run(common: &Common, args: &MetadataServer) -> Result<(), CliError> {
    let stop = stop::watch(args.until_eof)?;
    logging::start(&session::load_config(common)?, common.verbose)?;
    let config = config(args)?;
    let data = config.data.clone();
    let server = Server::start(config).map_err(|error| failed(&error))?;
    announce(common, args, &server, data.as_deref())?;
    // Whoever could send a stop is gone only when the program ends anyway.
    let _ = stop.recv();
    server.shutdown();
    Ok(())
}

fn config(args: &MetadataServer) -> Result<ServerConfig, CliError> {
    let mut config = ServerConfig::new(resolve(&args.listen)?);
    config.data = args.data.as_deref().map(data_file);
    config.token = args.token_file.as_deref().map(token).transpose()?;
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    config.tls = tls.map(|(certificates, key)| TlsFiles { certificates, key });
    config.limits = args.bounds.limits();
    Ok(config)
}

/// A folder gets a file with our name.
fn data_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("te-metadata.redb") } else { path.to_owned() }
}

fn resolve(listen: &str) -> Result<SocketAddr, CliError> {
    let wrong = |cause: String| {
        CliError::new(Failure::Usage, format!("cannot listen at {listen}"), cause)
            .hint("--listen takes HOST:PORT, like 127.0.0.1:8080 or [::]:8080")
    };
    let mut found = listen.to_socket_addrs().map_err(|cause| wrong(cause.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address".to_owned()))
}

fn token(path: &Path) -> Result<Token, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| CliError::file("cannot read the token", path, &cause))?;
    Token::parse(&text).map_err(|error| {
        CliError::new(Failure::Usage, format!("the token in {}", path.display()), error)
            .hint("`head -c 24 /dev/urandom | base64` makes a good one")
    })
}

fn failed(error: &StartError) -> CliError {
    let failure = match error {
        StartError::Limit { .. } | StartError::NoTls => Failure::Usage,
        _ => Failure::Local,
    };
    let made = CliError::new(failure, "cannot start the metadata server", chain(error));
    match error {
        StartError::Listen { .. } => made.hint("--listen with port 0 takes a free one"),
        _ => made,
    }
}

fn announce(
    common: &Common,
    args: &MetadataServer,
    server: &Server,
    data: Option<&Path>,
) -> Result<(), CliError> {
    let url = format!("{}://{}/metadata", server.scheme(), server.address());
    if common.json {
        output::json(&json!({
            "url": url,
            "address": server.address().to_string(),
            "data": data.map(|path| path.display().to_string()),
            "token": args.token_file.is_some(),
            "pid": std::process::id(),
        }))?;
    } else {
        let kept = data.map_or_else(
            || "in memory only".to_owned(),
            |path| format!("data in {}", path.display()),
        );
        output::line(&format!("metadata server {url} ({kept})"))?;
    }
    if args.token_file.is_none() && !server.address().ip().is_loopback() {
        output::note(
            "te: anybody who can connect can read and write everything; --token-file changes that",
        );
    }
    Ok(())
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  te metadata-server                                    on this machine, in memory only
  te metadata-server --listen 0.0.0.0:8080 --data /var/lib/te/metadata.redb
  te metadata-server --token-file t --tls-cert c.pem --tls-key k.pem --listen [::]:8443
  te serve --metadata http://127.0.0.1:8080/metadata    an engine that publishes there

Mooncake's engines use it as they use their own: with the same URL. In a browser it shows what
is published. `te metadata-server --help` also lists the limits.";
