//! The addresses of a host's NICs with their weights, as a setting and as a part of a descriptor.
//!
//! What a peer published is hostile: entries that are none are left out, and only the first few
//! count.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

/// The most addresses that one end has.
pub const MAX_NIC_ADDRESSES: usize = 8;
/// The largest weight.
const MAX_WEIGHT: u32 = 10_000;
/// The longest text of one: an IPv6 address in full and a weight.
const MAX_TEXT: usize = 64;

/// The address of a NIC and its weight: `10.1.0.7`, or `10.1.0.7*25`.
///
/// ```
/// use te_metadata::NicAddress;
///
/// let address: NicAddress = "fd00::7*25".parse()?;
/// assert_eq!((address.ip().to_string(), address.weight()), ("fd00::7".to_owned(), 25));
/// assert_eq!("10.1.0.7".parse::<NicAddress>()?.weight(), 1);
/// # Ok::<(), te_metadata::ParseNicAddressError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NicAddress {
    ip: IpAddr,
    weight: u32,
}

impl NicAddress {
    /// An address of weight 1; `None` for one that no NIC can have.
    pub fn new(ip: IpAddr) -> Option<Self> {
        let usable = !ip.is_unspecified() && !ip.is_multicast();
        usable.then_some(Self { ip, weight: 1 })
    }

    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Which share of the bytes goes there, against the other addresses of the same end; 1 to
    /// 10,000.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Reads the list that a descriptor has: of at most [`MAX_NIC_ADDRESSES`] entries those that are
    /// addresses, each once.
    pub fn read_list(value: &Value) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let entries = value.as_array().map_or(&[][..], Vec::as_slice);
        for entry in entries.iter().take(MAX_NIC_ADDRESSES) {
            let address = entry.as_str().and_then(|text| text.parse::<Self>().ok());
            found.extend(address.filter(|new| found.iter().all(|known| known.ip != new.ip)));
        }
        found
    }
}

impl FromStr for NicAddress {
    type Err = ParseNicAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_TEXT {
            return Err(ParseNicAddressError);
        }
        let (ip, weight) = match text.split_once('*') {
            Some((ip, weight)) => (ip, read_weight(weight).ok_or(ParseNicAddressError)?),
            None => (text, 1),
        };
        let ip = ip.parse().map_err(|_| ParseNicAddressError)?;
        let address = Self::new(ip).ok_or(ParseNicAddressError)?;
        Ok(Self { weight, ..address })
    }
}

fn read_weight(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|weight| digits && (1..=MAX_WEIGHT).contains(weight))
}

impl fmt::Display for NicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weight {
            1 => write!(f, "{}", self.ip),
            weight => write!(f, "{}*{weight}", self.ip),
        }
    }
}

impl Serialize for NicAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NicAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The text is no address of a NIC.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the address of a NIC is an IP address, or one with a weight from 1 to 10000 as 10.1.0.7*25"
)]
pub struct ParseNicAddressError;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["10.1.0.7", "10.1.0.7*25", "fd00::7*10000", "127.0.0.1"] {
            let address: NicAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(NicAddress::read_list(&json!([address])), [address]);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("10.0.0.1*{}", "0".repeat(60));
        for text in [
            "",
            "*",
            "10.0.0.1*",
            "10.0.0.1*0",
            "10.0.0.1*-1",
            "10.0.0.1*+1",
            "10.0.0.1*10001",
            "10.0.0.1*4294967297",
            "10.0.0.1*1*1",
            "*3",
            " 10.0.0.1",
            "host",
            "10.0.0.1:80",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            &long,
        ] {
            assert_eq!(text.parse::<NicAddress>(), Err(ParseNicAddressError), "{text}");
        }
    }

    /// What a peer says is bounded and never believed whole.
    #[test]
    fn a_hostile_list_gives_few_addresses_or_none() {
        let texts = |value: Value| -> Vec<String> {
            NicAddress::read_list(&value).iter().map(ToString::to_string).collect()
        };
        let many: Vec<_> =
            (0..100_000).map(|n| format!("10.1.{}.{}", n / 250 % 250, n % 250 + 1)).collect();
        assert_eq!(NicAddress::read_list(&json!(many)).len(), MAX_NIC_ADDRESSES);
        for value in [json!(null), json!({}), json!("10.0.0.1"), json!(7), json!([])] {
            assert_eq!(texts(value), [""; 0]);
        }
        let mixed = json!([7, null, "x", "10.0.0.1*3", ["10.0.0.2"], "10.0.0.1", "fd00::1"]);
        assert_eq!(texts(mixed), ["10.0.0.1*3", "fd00::1"]);
    }
}
