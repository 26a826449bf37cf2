//! From the settings to how a metadata service is reached.

use te_metadata::{Credentials, StoreOptions, TlsFiles};

use super::settings::MetadataSettings;

impl MetadataSettings {
    /// How the service is reached.
    pub fn to_store_options(&self) -> StoreOptions {
        let credentials = Credentials {
            username: self.username.clone(),
            password: self.password.clone(),
            token: self.token.clone(),
        };
        let tls = TlsFiles {
            authorities: self.ca_file.clone(),
            certificate: self.certificate_file.clone(),
            key: self.key_file.clone(),
        };
        StoreOptions {
            connect_timeout: self.connect_timeout,
            call_timeout: self.call_timeout,
            credentials,
            redis_database: self.redis_database,
            http_proxy: self.http_proxy.clone(),
            tls,
        }
    }
}
