//! Sets of CPU numbers, in the spellings of the kernel and of lstopo.

use std::fmt;

use serde::{Serialize, Serializer};

/// CPU numbers from this one on are refused: no kernel has more, and a text may name any number.
pub const MAX_CPU: u32 = 65_536;

/// A set of CPU numbers, kept as sorted ranges that do not touch.
///
/// ```
/// use te_topology::CpuSet;
///
/// let cpus = CpuSet::parse_list("0-3,8").unwrap();
/// assert_eq!(cpus.len(), 5);
/// assert_eq!(CpuSet::parse_mask("0000010f"), Some(cpus));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(Vec<(u32, u32)>);

impl CpuSet {
    /// The set without a CPU.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Reads the kernel's list form, such as `0-3,8`; the empty text is the empty set.
    ///
    /// `None` for anything else, and for numbers from [`MAX_CPU`] on.
    pub fn parse_list(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= MAX_CPU {
                return None;
            }
            ranges.push((first, last));
        }
        Some(Self::from_ranges(ranges))
    }

    /// Reads a mask of 32-bit hexadecimal words, the highest first, such as `00000001,0000ffff`
    /// (kernel) or `0x00000001,,0x0000ffff` (lstopo, where an empty word is zero).
    ///
    /// `None` for anything else, and for CPUs from [`MAX_CPU`] on.
    pub fn parse_mask(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for (position, word) in text.trim().rsplit(',').enumerate() {
            let word = word.trim();
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let bits = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).ok()? };
            let base = u32::try_from(position).ok()?.checked_mul(32)?;
            for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                let cpu = base.checked_add(bit).filter(|cpu| *cpu < MAX_CPU)?;
                ranges.push((cpu, cpu));
            }
        }
        Some(Self::from_ranges(ranges))
    }

    fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(previous) if first <= previous.1 + 1 => previous.1 = previous.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// Whether there is no CPU in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many CPUs are in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether a CPU is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.covers_range((cpu, cpu))
    }

    /// Whether a CPU is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        let (mut left, mut right) = (self.0.as_slice(), other.0.as_slice());
        while let ([a, rest_left @ ..], [b, rest_right @ ..]) = (left, right) {
            if a.0 <= b.1 && b.0 <= a.1 {
                return true;
            }
            if a.1 < b.1 { left = rest_left } else { right = rest_right }
        }
        false
    }

    /// Whether every CPU of `other` is in this set.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|range| self.covers_range(*range))
    }

    fn covers_range(&self, (first, last): (u32, u32)) -> bool {
        let after = self.0.partition_point(|range| range.0 <= first);
        let before = after.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|range| last <= range.1)
    }

    /// All CPUs of both.
    pub fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.0.iter().chain(&other.0).copied().collect())
    }
}

/// The kernel's list form.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_masks_of_real_machines_are_read() {
        let list = |text: &str| CpuSet::parse_list(text).unwrap();
        assert_eq!(list("0-47,96-143").len(), 96);
        assert_eq!(list(" 4,6,5,8\n").to_string(), "4-6,8");
        assert_eq!(CpuSet::parse_mask("00000000,0000ff00"), Some(list("8-15")));
        assert_eq!(CpuSet::parse_mask("0x00000003,,0x1"), Some(list("0,64-65")));
        assert!(list("").is_empty());
        assert!(list("0-7").covers(&list("2-3,5")) && !list("0-7").covers(&list("7-8")));
        assert!(list("0-7").intersects(&list("7-9")) && !list("0-7").intersects(&list("8")));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["x", "1-", "3-1", "0-65536", "-1", "1-2-3"] {
            assert_eq!(CpuSet::parse_list(text), None, "{text}");
        }
        for text in ["zz", "123456789", "0x"] {
            let expected = (text == "0x").then(CpuSet::new);
            assert_eq!(CpuSet::parse_mask(text), expected, "{text}");
        }
        assert_eq!(CpuSet::parse_mask(&format!("1{}", ",0".repeat(3000))), None);
    }

    fn set() -> impl Strategy<Value = std::collections::BTreeSet<u32>> {
        prop::collection::btree_set(0_u32..24, 0..16)
    }

    fn of(cpus: &std::collections::BTreeSet<u32>) -> CpuSet {
        CpuSet::from_ranges(cpus.iter().map(|cpu| (*cpu, *cpu)).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[0-9a-fx,-]{0,40}|\\PC{0,20}") {
            if let Some(set) = CpuSet::parse_list(&text) {
                prop_assert_eq!(CpuSet::parse_list(&set.to_string()), Some(set));
            }
            CpuSet::parse_mask(&text);
        }

        #[test]
        fn sets_are_sets(a in set(), b in set(), cpu in 0_u32..24) {
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.contains(cpu), a.contains(&cpu));
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert_eq!(x.covers(&y), b.is_subset(&a));
            prop_assert_eq!(x.union(&y), of(&(&a | &b)));
        }
    }
}
