//! Certificates from files.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{OpenStoreError, TlsFiles};

/// What a client that encrypts is set up with.
pub(crate) fn client_config(files: &TlsFiles) -> Result<ClientConfig, OpenStoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| OpenStoreError::Encryption { source: Box::new(source) })?;
    let builder = match &files.authorities {
        Some(path) => builder.with_root_certificates(authorities(path)?),
        None => {
            use hyper_rustls::ConfigBuilderExt as _;
            builder
                .with_native_roots()
                .map_err(|source| OpenStoreError::Encryption { source: Box::new(source) })?
        }
    };
    match (&files.certificate, &files.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|source| OpenStoreError::Encryption { source: Box::new(source) }),
        _ => Err(OpenStoreError::HalfIdentity),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, OpenStoreError> {
    let mut roots = RootCertStore::empty();
    let (n_added, _) = roots.add_parsable_certificates(certificates(path)?);
    if n_added == 0 {
        return Err(unreadable(path, "no usable certificate in it"));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenStoreError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|source| OpenStoreError::File { path: path.into(), source: Box::new(source) })
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, OpenStoreError> {
    let read = PrivateKeyDer::from_pem_file(path);
    read.map_err(|source| OpenStoreError::File { path: path.into(), source: Box::new(source) })
}

fn unreadable(path: &Path, reason: &str) -> OpenStoreError {
    OpenStoreError::File { path: path.into(), source: reason.into() }
}
