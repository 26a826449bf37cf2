//! What the descriptor says about this transport, under `te.transports.shm`.

use serde_json::{Value, json};

use crate::host::Place;

/// The version of this part that we write and understand.
const VERSION: u64 = 1;
/// Longest name of a boot: the kernel's have 36 bytes.
const MAX_BOOT: usize = 64;
/// Longest name of an abstract socket: an address has room for 107 bytes behind the leading zero.
const MAX_SOCKET: usize = 107;

/// How a process of the same host is found, as its descriptor says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShmOffer {
    /// The kernel's random name of the boot.
    pub boot: String,
    /// The inode of the namespace that `pid` counts in.
    pub pid_namespace: u64,
    /// The process.
    pub pid: i32,
    /// When it started, in clock ticks since the boot.
    pub start: u64,
    /// The abstract Unix socket where it answers, without the leading zero byte.
    pub socket: String,
}

/// Why a part of a descriptor is no offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// A version that we do not speak.
    #[error("version {found} of the offer is not known")]
    Version {
        /// What it says.
        found: u64,
    },
    /// A field is missing, of another kind or out of its range.
    #[error("field `{field}` of the offer is missing or wrong")]
    Field {
        /// Which.
        field: &'static str,
    },
}

impl ShmOffer {
    pub(crate) fn new(place: &Place, socket: &str) -> Self {
        Self {
            boot: place.boot.clone(),
            pid_namespace: place.pid_namespace,
            pid: place.pid.as_raw_pid(),
            start: place.start,
            socket: socket.to_owned(),
        }
    }

    /// The part of the descriptor.
    pub fn encode(&self) -> Value {
        json!({
            "boot": self.boot,
            "pid": self.pid,
            "pid_namespace": self.pid_namespace,
            "socket": self.socket,
            "start": self.start,
            "version": VERSION,
        })
    }

    /// Reads the part of a descriptor. Unknown fields are ignored.
    ///
    /// # Errors
    /// [`OfferError`].
    pub fn decode(value: &Value) -> Result<Self, OfferError> {
        let number = |field| value[field].as_u64().ok_or(OfferError::Field { field });
        let text = |field, max| {
            let text = value[field].as_str().filter(|text| !text.is_empty() && text.len() <= max);
            text.map(str::to_owned).ok_or(OfferError::Field { field })
        };
        let found = number("version")?;
        if found != VERSION {
            return Err(OfferError::Version { found });
        }
        let pid = i32::try_from(number("pid")?).ok().filter(|pid| *pid > 0);
        Ok(Self {
            boot: text("boot", MAX_BOOT)?,
            pid_namespace: number("pid_namespace")?,
            pid: pid.ok_or(OfferError::Field { field: "pid" })?,
            start: number("start")?,
            socket: text("socket", MAX_SOCKET)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> ShmOffer {
        let socket = "te-shm-0123456789abcdef0123456789abcdef".to_owned();
        ShmOffer { boot: "b".repeat(36), pid_namespace: 4_026_531_836, pid: 77, start: 9, socket }
    }

    #[test]
    fn an_offer_survives_the_descriptor() {
        assert_eq!(ShmOffer::decode(&offer().encode()), Ok(offer()));
        let mut newer = offer().encode();
        newer["more"] = json!([1, 2]);
        assert_eq!(ShmOffer::decode(&newer), Ok(offer()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            ("version", json!(2)),
            ("version", json!("1")),
            ("pid", json!(0)),
            ("pid", json!(-1)),
            ("pid", json!(1_u64 << 31)),
            ("pid_namespace", json!(null)),
            ("start", json!("9")),
            ("boot", json!("")),
            ("boot", json!("x".repeat(65))),
            ("socket", json!("x".repeat(108))),
            ("socket", json!(["x"])),
        ];
        for (field, value) in table {
            let mut wrong = offer().encode();
            wrong[field] = value.clone();
            let error = ShmOffer::decode(&wrong).unwrap_err();
            let expected = match value.as_u64() {
                Some(2) => OfferError::Version { found: 2 },
                _ => OfferError::Field { field },
            };
            assert_eq!(error, expected, "{field} = {value}");
        }
        for value in [json!(null), json!([]), json!("x"), json!(1)] {
            assert!(ShmOffer::decode(&value).is_err());
        }
    }
}
