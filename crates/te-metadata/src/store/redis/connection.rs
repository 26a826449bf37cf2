//! The connection to a redis: made when needed, given up when lost, bounded in time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::redis::{
    Cmd, Connection, ConnectionLike as _, ErrorKind, IntoConnectionInfo as _, RedisConnectionInfo,
    RedisError, ServerErrorKind, Value,
};
use te_sync::{Mutex, MutexGuard};

use crate::HostPort;
use crate::peer::addresses_within;
use crate::store::{OpenStoreError, StoreError, StoreOptions, StorePhase};

/// A connection that comes and goes.
pub(super) struct Link {
    uri: String,
    address: HostPort,
    settings: RedisConnectionInfo,
    connect_timeout: Duration,
    call_timeout: Duration,
    open: Mutex<Option<Open>>,
}

struct Open {
    process: u32,
    connection: Connection,
}

/// Why there is no answer, and how far it came.
struct Failure {
    phase: StorePhase,
    error: RedisError,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("uri", &self.uri).finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "a driver bounds its calls in time")]
fn now() -> Instant {
    Instant::now()
}

impl Link {
    pub(super) fn new(address: &HostPort, options: &StoreOptions) -> Result<Self, OpenStoreError> {
        let mut settings = RedisConnectionInfo::default()
            .set_db(i64::from(options.redis_database))
            .set_skip_set_lib_name();
        if let Some(password) = &options.credentials.password {
            settings = settings.set_password(password.reveal());
            if let Some(username) =
                options.credentials.username.as_ref().filter(|it| !it.is_empty())
            {
                settings = settings.set_username(username);
            }
        }
        Ok(Self {
            uri: format!("redis://{address}"),
            address: address.clone(),
            settings,
            connect_timeout: options.connect_timeout,
            call_timeout: options.call_timeout,
            open: Mutex::new(None),
        })
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn malformed(&self, reason: String) -> StoreError {
        StoreError::Malformed { uri: self.uri.clone(), reason }
    }

    /// Sends a command and takes its answer; once more on a new connection if the old one was lost.
    pub(super) fn call(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let deadline = now() + self.call_timeout;
        let mut open = self.lock(deadline)?;
        let was_open = open.is_some();
        let answer = match self.attempt(&mut open, command, deadline) {
            Err(Failure { error, .. })
                if was_open && error.is_connection_dropped() && !error.is_timeout() =>
            {
                self.attempt(&mut open, command, deadline)
            }
            answer => answer,
        };
        answer.map_err(|failure| self.failed(key, failure))
    }

    /// The connection, for one call. One of a parent process is left to it.
    fn lock(&self, deadline: Instant) -> Result<MutexGuard<'_, Option<Open>>, StoreError> {
        let open = self.open.try_lock_until(deadline);
        let mut open = open.ok_or_else(|| {
            self.unreachable(StorePhase::Exchange, "another call takes too long".into())
        })?;
        if open.as_ref().is_some_and(|it| it.process != std::process::id()) {
            *open = None;
        }
        Ok(open)
    }

    /// Whatever fails but a clean refusal takes the connection along: an answer may still come.
    fn attempt(
        &self,
        open: &mut Option<Open>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let mut it = match open.take() {
            Some(it) => it,
            None => Open { process: std::process::id(), connection: self.connect(deadline)? },
        };
        let bounded = bound(&it.connection, left(deadline));
        let answer = bounded.and_then(|()| it.connection.req_command(command));
        let answer = answer.and_then(Value::extract_error);
        if answer.as_ref().is_ok() || answer.as_ref().is_err_and(is_refusal) {
            *open = Some(it);
        }
        answer.map_err(|error| Failure { phase: StorePhase::Exchange, error })
    }

    fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        let failed = |error: RedisError| Failure { phase: StorePhase::Connect, error };
        let limit = || left(deadline).min(self.connect_timeout);
        let addresses = addresses_within(&self.address, limit());
        let mut last = None;
        for address in addresses.map_err(|error| failed(error.into()))? {
            match self.greet(address, limit()) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(error),
            }
        }
        let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        Err(failed(last.unwrap_or_else(|| none().into())))
    }

    /// Connects, with `AUTH` and `SELECT` where they are wanted.
    fn greet(&self, address: SocketAddr, limit: Duration) -> Result<Connection, RedisError> {
        let info = (address.ip().to_string(), address.port()).into_connection_info()?;
        let client = ::redis::Client::open(info.set_redis_settings(self.settings.clone()))?;
        client.get_connection_with_timeout(limit)
    }

    fn failed(&self, key: &str, Failure { phase, error }: Failure) -> StoreError {
        let (uri, reason) = (self.uri.clone(), error.to_string());
        match error.kind() {
            ErrorKind::AuthenticationFailed => StoreError::Unauthorised { uri, reason },
            _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => {
                StoreError::Unauthorised { uri, reason }
            }
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown,
            ) => self.unreachable(StorePhase::Exchange, Box::new(error)),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
                StoreError::Malformed { uri, reason }
            }
            ErrorKind::Io => self.unreachable(phase, Box::new(error)),
            _ => StoreError::Refused { uri, key: key.to_owned(), reason },
        }
    }

    fn unreachable(
        &self,
        phase: StorePhase,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> StoreError {
        let (uri, address) = (self.uri.clone(), self.address.to_string());
        StoreError::Unreachable { uri, phase, address, source }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(now()).max(Duration::from_millis(1))
}

fn bound(connection: &Connection, limit: Duration) -> Result<(), RedisError> {
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit))
}

/// Whether the server said no, and the connection is as good as before.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}
