//! Colours, each with its counterpart for a dark background.
//!
//! I1  No two inks have the same light colour: the style sheet of a picture finds what to darken by
//!     the colour that the back end wrote.
//! I2  Path classes are one hue from strong (near) to faint (far); direct links have their own.

use te_topology::PathClass;

/// What a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Paper,
    Text,
    Muted,
    Panel,
    PanelEdge,
    NodeBar,
    OnBar,
    OnBarMuted,
    Root,
    RootEdge,
    Switch,
    SwitchEdge,
    Nic,
    NicEdge,
    Gpu,
    GpuEdge,
    Idle,
    IdleEdge,
    Wire,
    Link,
    Pix,
    Pxb,
    Phb,
    Node,
    Sys,
    Same,
    OnNear,
    OnFar,
    Best,
    Blue,
    Orange,
    Green,
    Violet,
    Brown,
    Red,
}

impl Ink {
    /// Red, green and blue on a light background.
    pub(crate) const fn light(self) -> u32 {
        self.pair().0
    }

    /// The same on a dark one.
    pub(crate) const fn dark(self) -> u32 {
        self.pair().1
    }

    const fn pair(self) -> (u32, u32) {
        match self {
            Self::Paper => (0xff_ffff, 0x12_161c),
            Self::Text => (0x17_1c22, 0xe8_ebef),
            Self::Muted => (0x55_606b, 0xa3_adb8),
            Self::Panel => (0xf5_f7f9, 0x1a_1f26),
            Self::PanelEdge => (0xc8_cfd7, 0x3a_434e),
            Self::NodeBar => (0x33_4155, 0x3d_4b61),
            Self::OnBar => (0xfd_fdfe, 0xf5_f7fa),
            Self::OnBarMuted => (0xd3_dae3, 0xc9_d1db),
            Self::Root => (0xe1_e6ec, 0x2a_313b),
            Self::RootEdge => (0x9f_aab6, 0x5c_6875),
            Self::Switch => (0xf3_e9d7, 0x3a_3122),
            Self::SwitchEdge => (0xb9_975b, 0xa5_8650),
            Self::Nic => (0xe4_f0fb, 0x14_2c40),
            Self::NicEdge => (0x2f_80bf, 0x4f_a3dd),
            Self::Gpu => (0xe6_f4e6, 0x18_3220),
            Self::GpuEdge => (0x3f_954c, 0x5f_b96d),
            Self::Idle => (0xec_eef0, 0x23_282e),
            Self::IdleEdge => (0xa7_aeb6, 0x5b_636c),
            Self::Wire => (0x8b_95a1, 0x6f_7985),
            Self::Link => (0x5d_43ad, 0xb7_a3f2),
            Self::Pix => (0x0b_4f7d, 0x8d_cdf5),
            Self::Pxb => (0x23_719f, 0x55_a5d4),
            Self::Phb => (0x7b_b9dc, 0x2d_6f9a),
            Self::Node => (0xbb_dbec, 0x24_4e6c),
            Self::Sys => (0xed_f3f6, 0x1f_2a34),
            Self::Same => (0xf9_f9fa, 0x16_1a20),
            Self::OnNear => (0xff_fffe, 0x07_1119),
            Self::OnFar => (0x10_2230, 0xe9_f2f8),
            Self::Best => (0xd9_6a00, 0xff_b454),
            Self::Blue => (0x0b_65b8, 0x6d_b3f8),
            Self::Orange => (0xc2_5200, 0xff_a55e),
            Self::Green => (0x0a_7d55, 0x4f_d0a1),
            Self::Violet => (0x8a_3ea8, 0xd4_9bf0),
            Self::Brown => (0x7a_5c1e, 0xd9_b86a),
            Self::Red => (0xb8_233a, 0xff_8497),
        }
    }

    /// The colour of a path class, and that of text on it.
    pub(crate) const fn of_path(class: PathClass) -> (Self, Self) {
        match class {
            PathClass::GpuLink { .. } => (Self::Link, Self::OnNear),
            PathClass::Pix => (Self::Pix, Self::OnNear),
            PathClass::Pxb => (Self::Pxb, Self::OnNear),
            PathClass::Phb => (Self::Phb, Self::OnFar),
            PathClass::Node => (Self::Node, Self::OnFar),
            PathClass::Same => (Self::Same, Self::Muted),
            _ => (Self::Sys, Self::OnFar),
        }
    }

    /// Those of series in a chart.
    pub(crate) const SERIES: [Self; 6] =
        [Self::Blue, Self::Orange, Self::Green, Self::Violet, Self::Brown, Self::Red];

    pub(crate) const ALL: [Self; 35] = [
        Self::Paper,
        Self::Text,
        Self::Muted,
        Self::Panel,
        Self::PanelEdge,
        Self::NodeBar,
        Self::OnBar,
        Self::OnBarMuted,
        Self::Root,
        Self::RootEdge,
        Self::Switch,
        Self::SwitchEdge,
        Self::Nic,
        Self::NicEdge,
        Self::Gpu,
        Self::GpuEdge,
        Self::Idle,
        Self::IdleEdge,
        Self::Wire,
        Self::Link,
        Self::Pix,
        Self::Pxb,
        Self::Phb,
        Self::Node,
        Self::Sys,
        Self::Same,
        Self::OnNear,
        Self::OnFar,
        Self::Best,
        Self::Blue,
        Self::Orange,
        Self::Green,
        Self::Violet,
        Self::Brown,
        Self::Red,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_colours_tell_inks_apart() {
        let mut seen: Vec<u32> = Ink::ALL.iter().map(|ink| ink.light()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), Ink::ALL.len());
    }

    #[test]
    fn text_can_be_read_on_what_is_below_it() {
        let pairs = [
            (Ink::Text, Ink::Paper),
            (Ink::Muted, Ink::Paper),
            (Ink::Muted, Ink::Panel),
            (Ink::OnBar, Ink::NodeBar),
            (Ink::OnBarMuted, Ink::NodeBar),
            (Ink::Text, Ink::Root),
            (Ink::Muted, Ink::Root),
            (Ink::Muted, Ink::Switch),
            (Ink::Muted, Ink::Nic),
            (Ink::Muted, Ink::Gpu),
            (Ink::Muted, Ink::Idle),
            (Ink::Muted, Ink::Same),
            (Ink::OnNear, Ink::Link),
            (Ink::OnNear, Ink::Pix),
            (Ink::OnNear, Ink::Pxb),
            (Ink::OnFar, Ink::Phb),
            (Ink::OnFar, Ink::Node),
            (Ink::OnFar, Ink::Sys),
        ];
        for (text, below) in pairs {
            for (a, b) in [(text.light(), below.light()), (text.dark(), below.dark())] {
                assert!(contrast(a, b) >= 4.5, "{text:?} on {below:?}: {}", contrast(a, b));
            }
        }
    }

    /// The contrast of two colours as WCAG defines it.
    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn luminance(colour: u32) -> f64 {
        let part = |shift: u32| {
            let value = f64::from(colour >> shift & 0xff) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
    }
}
