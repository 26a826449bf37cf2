//! `/health` and `/metrics`.
//!
//! The metrics are written by hand: a dozen numbers that exist anyway need no registry, and the
//! text format is one line each.

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering::Relaxed;

use hyper::StatusCode;
use serde_json::json;

use crate::clock;
use crate::http::reply;
use crate::http::{Reply, Shared};
use crate::moment::millis;

/// 200 while the server does its work, 503 while its data file cannot be read.
pub(crate) fn health(shared: &Shared) -> Reply {
    let is_broken = shared.counters.is_broken.load(Relaxed);
    let status = if is_broken { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = json!({
        "status": if is_broken { "the data file cannot be read" } else { "ok" },
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": uptime_ms(shared),
        "durable": shared.is_durable,
    });
    reply::json_reply(status, &body)
}

/// How long the server runs.
pub(crate) fn uptime_ms(shared: &Shared) -> u64 {
    millis(clock::now().mono.saturating_duration_since(shared.started.mono))
}

pub(crate) fn metrics(shared: &Shared) -> Reply {
    reply::reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text(shared))
}

fn text(shared: &Shared) -> String {
    let counters = &shared.counters;
    let totals = counters.totals();
    let mut out = Text(String::new());
    out.gauge("keys", "Keys that are kept", totals.n_keys);
    out.gauge("bytes", "Bytes of keys and values", totals.bytes);
    out.gauge("owners", "Owners that have keys", totals.n_owners);
    out.gauge("revision", "Revision of the last change", totals.revision);
    out.gauge("events", "Events that are kept for watchers", totals.n_events);
    out.gauge("watchers", "Requests that wait for news", counters.n_watchers.load(Relaxed));
    out.gauge("connections", "Open connections", counters.n_connections.load(Relaxed));
    out.gauge(
        "healthy",
        "0: the data file cannot be read",
        u8::from(!counters.is_broken.load(Relaxed)),
    );
    let held = shared.limits.max_body_bytes.saturating_sub(shared.body_room.available_permits());
    out.gauge("body_bytes", "Bytes of bodies that are being received", held);
    out.gauge("uptime_seconds", "Time since the start", uptime_ms(shared) / 1000);
    out.counter("expired", "Keys whose time ran out", totals.n_expired);
    out.counter("accepted", "Connections taken", counters.n_accepted.load(Relaxed));
    out.counter(
        "turned_away",
        "Connections that were too many",
        counters.n_turned_away.load(Relaxed),
    );
    out.counter(
        "broken_off",
        "Connections that ended in a fault",
        counters.n_broken_off.load(Relaxed),
    );
    out.counter("commits", "Times that changes were stored", counters.n_commits.load(Relaxed));
    out.counter(
        "commit_failures",
        "Times that changes could not be stored",
        counters.n_failed_commits.load(Relaxed),
    );
    out.counter("commit_seconds", "Time spent storing changes", counters.commit_seconds());
    out.head("requests_total", "counter", "Requests by path and answer");
    for ((route, status), n) in counters.requests() {
        out.line(&format!("requests_total{{path=\"{route}\",code=\"{status}\"}}"), n);
    }
    out.0
}

struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(name, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        let name = format!("{name}_total");
        self.head(&name, "counter", help);
        self.line(&name, value);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = PREFIX;
        let line = format!("# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}\n");
        self.0.push_str(&line);
    }

    fn line(&mut self, name: &str, value: impl Display) {
        writeln!(self.0, "{PREFIX}{name} {value}").expect("a String takes everything");
    }
}

const PREFIX: &str = "te_metadata_";
