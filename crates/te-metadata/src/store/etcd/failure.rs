//! What an etcd call can fail with, and whether another endpoint may do better.

use std::error::Error as StdError;

use etcd_client::Error;

use crate::store::cause::{TlsCause, chain, tls_cause};
use crate::store::{StoreError, StorePhase};

/// Codes of gRPC, by their numbers.
mod code {
    pub(super) const CANCELLED: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const INTERNAL: i32 = 13;
    pub(super) const UNAVAILABLE: i32 = 14;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// Why a call to one endpoint failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) endpoint: String,
    pub(super) cause: Cause,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// It was silent for its share of the time.
    Silent,
    /// It, or the way to it, said so.
    Said(Box<Error>),
    /// It said what its protocol does not allow.
    Malformed(&'static str),
}

fn code_of(error: &Error) -> Option<i32> {
    match error {
        Error::GRpcStatus(status) => Some(status.code().into()),
        _ => None,
    }
}

/// The part of an error whose causes can be followed.
fn traceable(error: &Error) -> &(dyn StdError + 'static) {
    match error {
        Error::GRpcStatus(status) => status,
        Error::TransportError(error) => error,
        Error::IoError(error) => error,
        other => other,
    }
}

/// Whether a lease is not there any more.
pub(super) fn is_lease_gone(error: &Error) -> bool {
    matches!(error, Error::LeaseKeepAliveError(_)) || code_of(error) == Some(code::NOT_FOUND)
}

/// Whether etcd wants other credentials. It answers a wrong password, and no user where one is
/// needed, as a wrong argument; only its words tell.
fn is_about_credentials(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else { return false };
    let says = |words: &str| status.message().contains(words);
    match i32::from(status.code()) {
        code::UNAUTHENTICATED | code::PERMISSION_DENIED => true,
        code::INVALID_ARGUMENT => says("user name is empty") || says("authentication failed"),
        code::FAILED_PRECONDITION => says("authentication is not enabled"),
        _ => false,
    }
}

impl Failure {
    /// Whether another endpoint may do better.
    pub(super) fn moves_on(&self) -> bool {
        match &self.cause {
            Cause::Silent => true,
            Cause::Malformed(_) => false,
            Cause::Said(error) => match code_of(error) {
                None => !matches!(**error, Error::InvalidArgs(_) | Error::InvalidUri(_)),
                Some(code) => [
                    code::CANCELLED,
                    code::UNKNOWN,
                    code::DEADLINE_EXCEEDED,
                    code::INTERNAL,
                    code::UNAVAILABLE,
                ]
                .contains(&code),
            },
        }
    }

    pub(super) fn into_error(self, uri: &str, key: &str) -> StoreError {
        let moves_on = self.moves_on();
        let (uri, key, address) = (uri.to_owned(), key.to_owned(), self.endpoint);
        let error = match self.cause {
            Cause::Malformed(reason) => {
                return StoreError::Malformed { uri, reason: reason.to_owned() };
            }
            Cause::Silent => {
                let source = "no answer in time".into();
                let phase = StorePhase::Exchange;
                return StoreError::Unreachable { uri, phase, address, source };
            }
            Cause::Said(error) => error,
        };
        let text = match &*error {
            // Its own text has debug forms of its causes in it.
            Error::GRpcStatus(status) if !status.message().is_empty() => {
                status.message().to_owned()
            }
            error => chain(traceable(error)),
        };
        let phase = match tls_cause(traceable(&error)) {
            Some(TlsCause::Trust) => {
                return StoreError::BadCertificate { uri, address, source: text.into() };
            }
            Some(TlsCause::Handshake) => StorePhase::Tls,
            None if is_connecting(traceable(&error)) => StorePhase::Connect,
            None => StorePhase::Exchange,
        };
        if is_about_credentials(&error) {
            StoreError::Unauthorised { uri, reason: text }
        } else if moves_on {
            StoreError::Unreachable { uri, phase, address, source: text.into() }
        } else {
            StoreError::Refused { uri, key, reason: text }
        }
    }
}

/// Whether there was no connection: an I/O error that only connecting has.
fn is_connecting(error: &(dyn StdError + 'static)) -> bool {
    use std::io::ErrorKind as Kind;
    let refused = [Kind::ConnectionRefused, Kind::HostUnreachable, Kind::NetworkUnreachable];
    crate::store::cause::causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| refused.contains(&error.kind()))
}
