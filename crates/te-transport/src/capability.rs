//! Fixed facts about a transport, as one value.

use te_segment::SlicePolicy;

/// What the engine needs to know of a transport before it uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Name in configuration, logs and descriptors, such as `tcp`.
    pub name: &'static str,
    /// How requests are cut for it.
    pub slices: SlicePolicy,
    /// Whether local memory must be registered with it before a request may use it. Where it need
    /// not, unregistered memory is accepted for the time of one task (peer fault 28).
    pub needs_local_registration: bool,
    /// Whether slices that were handed over can be called back with `cancel`.
    pub can_cancel: bool,
}
