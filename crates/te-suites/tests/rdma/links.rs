//! The links of the guest, and who has them.

use std::process::Command;
use std::time::Duration;

use te_suites::wait_until;
use te_topology::NicName;

/// The device `rxeI`.
pub(crate) fn nic(index: usize) -> NicName {
    NicName::parse(&format!("rxe{index}")).expect("a good name")
}

/// The devices of a range.
pub(crate) fn nics(range: std::ops::Range<usize>) -> Vec<NicName> {
    range.map(nic).collect()
}

/// A link that a test took away or made lossy; mended when it is dropped, so that a test that fails
/// leaves the others a good machine.
#[derive(Debug)]
pub(crate) struct Broken {
    device: NicName,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Down,
    Lossy,
    Mended,
}

impl Broken {
    /// Takes the link away.
    pub(crate) fn down(device: &NicName) -> Self {
        te_net(&["down", device.as_str()]);
        Self { device: device.clone(), how: How::Down }
    }

    /// Lets it lose so many of the packets that it sends, in percent.
    pub(crate) fn losing(device: &NicName, percent: u32) -> Self {
        te_net(&["loss", device.as_str(), &percent.to_string()]);
        Self { device: device.clone(), how: How::Lossy }
    }

    /// Mends it. A link that comes back is waited for.
    pub(crate) fn mend(mut self) {
        self.mend_once();
    }

    fn mend_once(&mut self) {
        let device = self.device.as_str();
        match std::mem::replace(&mut self.how, How::Mended) {
            How::Down => {
                te_net(&["up", device]);
                let file = format!("/sys/class/infiniband/{device}/ports/1/state");
                wait_until(Duration::from_secs(30), "the port to be active", || {
                    let state = std::fs::read_to_string(&file).unwrap_or_default();
                    state.contains("ACTIVE").then_some(())
                });
            }
            How::Lossy => te_net(&["loss", device, "0"]),
            How::Mended => {}
        }
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        self.mend_once();
    }
}

fn te_net(words: &[&str]) {
    let status = Command::new("te-net").args(words).status();
    let is_good = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(is_good || std::thread::panicking(), "te-net {words:?}: {status:?}");
}
