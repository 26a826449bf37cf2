//! https.

use crate::config::TlsFiles;
use crate::error::StartError;

#[cfg(feature = "tls")]
pub(crate) use with_rustls::{Acceptor, acceptor};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Acceptor, acceptor};

#[cfg(feature = "tls")]
mod with_rustls {
    use std::path::Path;
    use std::sync::Arc;

    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::{StartError, TlsFiles};

    pub(crate) type Acceptor = TlsAcceptor;

    /// Reads certificate and key, and looks whether they belong together.
    pub(crate) fn acceptor(files: &TlsFiles) -> Result<Acceptor, StartError> {
        let at = |path: &Path, source: Box<dyn std::error::Error + Send + Sync>| StartError::Tls {
            path: path.to_owned(),
            source,
        };
        let chain = CertificateDer::pem_file_iter(&files.certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| at(&files.certificates, error.into()))?;
        if chain.is_empty() {
            return Err(at(&files.certificates, "there is no certificate in it".into()));
        }
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| at(&files.key, error.into()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| at(&files.certificates, error.into()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| at(&files.key, error.into()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config).into())
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use super::{StartError, TlsFiles};

    /// There is none in this build.
    #[derive(Debug, Clone)]
    pub(crate) enum Acceptor {}

    pub(crate) fn acceptor(_files: &TlsFiles) -> Result<Acceptor, StartError> {
        Err(StartError::NoTls)
    }
}
