//! Suite `metadata`: stores on real services, with what services do to their users.
//!
//! Each test starts its own service, on free ports and with a folder of its own, and ends it by
//! its process id. A service whose program is not there skips the test with that reason.
#![cfg(test)]

#[path = "metadata/cache.rs"]
mod cache;
#[path = "metadata/cluster.rs"]
mod cluster;
#[path = "metadata/conformance.rs"]
mod conformance;
#[path = "metadata/death.rs"]
mod death;
#[path = "metadata/engines.rs"]
mod engines;
#[path = "metadata/fb_engines.rs"]
mod fb_engines;
#[path = "metadata/fb_ipv6.rs"]
mod fb_ipv6;
#[path = "metadata/fb_links.rs"]
mod fb_links;
#[path = "metadata/guarded.rs"]
mod guarded;
#[path = "metadata/interop.rs"]
mod interop;
#[path = "metadata/life.rs"]
mod life;
#[path = "metadata/many.rs"]
mod many;
#[path = "metadata/names.rs"]
mod names;
#[path = "metadata/outage.rs"]
mod outage;
#[path = "metadata/owner.rs"]
mod owner;
#[path = "metadata/programs.rs"]
mod programs;
#[path = "metadata/protected.rs"]
mod protected;
#[path = "metadata/proxied.rs"]
mod proxied;
#[path = "metadata/scale.rs"]
mod scale;
#[path = "metadata/service.rs"]
mod service;
#[path = "metadata/verbs.rs"]
mod verbs;
#[path = "metadata/watched.rs"]
mod watched;
