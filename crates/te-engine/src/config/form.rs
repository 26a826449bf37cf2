//! How times and secrets stand in the TOML form. A time is a whole number, its unit in the key, 0
//! for "off" where a time may be absent.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

macro_rules! time_forms {
    ($plain:ident, $optional:ident, $to:ident, $from:ident) => {
        pub(super) mod $plain {
            use super::{Deserialize, Deserializer, Duration, Serializer};

            pub(crate) fn serialize<S: Serializer>(
                time: &Duration,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(super::$to(time))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Duration, D::Error> {
                Ok(Duration::$from(u64::deserialize(deserializer)?))
            }
        }

        pub(super) mod $optional {
            use super::{Deserialize, Deserializer, Duration, Serializer};

            pub(crate) fn serialize<S: Serializer>(
                time: &Option<Duration>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(time.as_ref().map_or(0, super::$to))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<Duration>, D::Error> {
                let number = u64::deserialize(deserializer)?;
                Ok((number != 0).then(|| Duration::$from(number)))
            }
        }
    };
}

time_forms!(seconds, seconds_or_off, whole_seconds, from_secs);
time_forms!(millis, millis_or_off, whole_millis, from_millis);

/// A secret comes in as text and never goes out as such.
pub(super) mod secret {
    use te_metadata::Secret;

    use super::super::draft::HIDDEN;
    use super::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        _secret: &Option<Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Some(Secret::new(String::deserialize(deserializer)?)))
    }
}

/// Rounded up: a time that a program set below the unit must not become 0, which means "off".
fn whole_seconds(time: &Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn whole_millis(time: &Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
