//! What stands behind an error of a client library.

use std::error::Error as StdError;
use std::io;

/// The causes of an error, itself first. Looks into I/O errors, which hide what they carry.
pub(crate) fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn StdError + 'static) = *error;
        let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match carried {
            Some(carried) => Some(carried as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

/// What encryption has to do with an error.
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "nothing is encrypted then"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsCause {
    /// One side does not trust the other.
    Trust,
    /// Another failure of the handshake.
    Handshake,
}

/// Whether encryption failed, and how.
#[cfg(feature = "tls")]
pub(crate) fn tls_cause(error: &(dyn StdError + 'static)) -> Option<TlsCause> {
    use rustls::{AlertDescription as Alert, Error};
    let error = causes(error).find_map(|cause| cause.downcast_ref::<Error>())?;
    Some(match error {
        Error::InvalidCertificate(_)
        | Error::NoCertificatesPresented
        | Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => TlsCause::Trust,
        _ => TlsCause::Handshake,
    })
}

/// Nothing is encrypted without feature `tls`.
#[cfg(not(feature = "tls"))]
pub(crate) fn tls_cause(_error: &(dyn StdError + 'static)) -> Option<TlsCause> {
    None
}

/// The whole chain in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        // Some libraries print their cause with themselves.
        if !texts.last().is_some_and(|last| last.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_looks_into_io_errors_and_repeats_nothing() {
        let inner = io::Error::new(io::ErrorKind::TimedOut, "too slow");
        let outer = io::Error::other(inner);
        assert_eq!(chain(&outer), "too slow");
        assert_eq!(causes(&outer).count(), 3);
        assert_eq!(tls_cause(&outer), None);
    }
}
