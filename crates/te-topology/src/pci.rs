//! PCI: addresses, classes and what a link carries.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Where a function sits on the PCI buses: `domain:bus:device.function`.
///
/// ```
/// use te_topology::PciAddress;
///
/// let address: PciAddress = "10000:00:1F.2".parse().unwrap();
/// assert_eq!(address.domain, 0x10000);
/// assert_eq!(address.to_string(), "10000:00:1f.2");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// The domain; more than 16 bits where a driver adds domains of its own.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device, 0 to 31.
    pub device: u8,
    /// The function, 0 to 7.
    pub function: u8,
}

impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).ok_or(ParsePciAddressError)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl fmt::Debug for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pci({self})")
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text that is no PCI address; the domain may be left out, everything else is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected a PCI address such as 0000:3b:00.0")]
pub struct ParsePciAddressError;

/// A PCI class: base class, subclass and programming interface in 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciClass(u32);

impl PciClass {
    /// A class by its 24 bits; higher bits are dropped.
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0x00ff_ffff)
    }

    /// Reads `0x020700` (sysfs, NCCL).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u32::from_str_radix(digits, 16).ok().filter(|bits| *bits <= 0x00ff_ffff).map(Self)
    }

    /// All 24 bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Base class and subclass.
    pub const fn kind(self) -> u32 {
        self.0 >> 8
    }

    /// Whether this is a bridge between two PCI buses (class 0604).
    pub const fn is_pci_bridge(self) -> bool {
        self.kind() == 0x0604
    }

    /// Whether this is a network controller of any kind (class 02) or an InfiniBand controller of
    /// the old class 0c06.
    pub const fn is_network(self) -> bool {
        self.0 >> 16 == 0x02 || self.kind() == 0x0c06
    }
}

impl fmt::Debug for PciClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class({self})")
    }
}

impl fmt::Display for PciClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

impl Serialize for PciClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a PCI Express link runs at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PciLink {
    /// Megatransfers per second and lane: 16000 is generation 4.
    pub speed_mts: Option<u32>,
    /// Lanes.
    pub width: Option<u8>,
    /// Megabytes per second of all lanes, where the source has only this sum.
    pub total_mb_s: Option<u32>,
}

impl PciLink {
    /// Reads `32.0 GT/s PCIe` and a number of lanes; what cannot be read stays unknown.
    pub fn parse(speed: Option<&str>, width: Option<&str>) -> Self {
        let number = speed.and_then(|text| text.trim().split(' ').next());
        let speed_mts = number.and_then(thousandths).and_then(|n| u32::try_from(n).ok());
        let width = width.and_then(|text| text.trim().parse().ok());
        Self {
            speed_mts: speed_mts.filter(|speed| *speed > 0),
            width: width.filter(|width| *width > 0),
            total_mb_s: None,
        }
    }

    /// Megabytes per second in one direction after line coding, if the source says enough.
    pub fn mb_s(&self) -> Option<u32> {
        let lanes = || {
            let (speed, width) = (u64::from(self.speed_mts?), u64::from(self.width?));
            // Up to 5 GT/s ten bits carry eight, above that 130 carry 128.
            let bits = if speed <= 5_000 { speed * 8 / 10 } else { speed * 128 / 130 };
            u32::try_from(bits * width / 8).ok()
        };
        self.total_mb_s.or_else(lanes)
    }
}

/// Reads a decimal number and gives it in thousandths; digits after the third are dropped.
pub(crate) fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut padded: String = fraction.chars().take(3).collect();
    while padded.len() < 3 {
        padded.push('0');
    }
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(padded.parse().ok()?)
}

fn parse(text: &str) -> Option<PciAddress> {
    let (front, function) = text.rsplit_once('.')?;
    let mut parts = front.rsplit(':');
    let (device, bus) = (parts.next()?, parts.next()?);
    let domain = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return None;
    }
    Some(PciAddress {
        domain: hex(domain, 8)?,
        bus: u8::try_from(hex(bus, 2)?).ok()?,
        device: u8::try_from(hex(device, 2)?).ok().filter(|device| *device < 32)?,
        function: u8::try_from(hex(function, 1)?).ok().filter(|function| *function < 8)?,
    })
}

fn hex(text: &str, longest: usize) -> Option<u32> {
    let fine = (1..=longest).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if fine { u32::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_and_printed() {
        let check = |text: &str, printed: &str| {
            assert_eq!(text.parse::<PciAddress>().map(|a| a.to_string()).as_deref(), Ok(printed));
        };
        check("0000:3b:00.0", "0000:3b:00.0");
        check("3B:1f.7", "0000:3b:1f.7");
        check("10000:00:00.0", "10000:00:00.0");
        for text in ["", "pci0000:00", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00", "a:b:c:d.0"] {
            assert_eq!(text.parse::<PciAddress>(), Err(ParsePciAddressError), "{text}");
        }
    }

    #[test]
    fn links_are_read_in_every_spelling() {
        let link = |speed: &str, width: &str| PciLink::parse(Some(speed), Some(width));
        assert_eq!(link("32.0 GT/s PCIe", "16").mb_s(), Some(63_014));
        assert_eq!(link("2.5 GT/s", "1").mb_s(), Some(250));
        assert_eq!(link("16 GT/s", "16").speed_mts, Some(16_000));
        assert_eq!(link("Unknown", "255").mb_s(), None);
        assert_eq!(link("", "0"), PciLink::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[0-9a-f:.]{0,16}|\\PC{0,20}") {
            if let Ok(address) = text.parse::<PciAddress>() {
                prop_assert_eq!(address.to_string().parse::<PciAddress>(), Ok(address));
            }
            PciClass::parse(&text);
            PciLink::parse(Some(&text), Some(&text)).mb_s();
        }
    }
}
