//! The RDMA devices of this machine, as the verbs library has them: a table, and the same as JSON.

use std::net::Ipv6Addr;

use serde_json::{Value, json};
use te_engine::{
    EngineConfig, GidRow, RdmaDevice, RdmaFinding, RdmaPort, RdmaSeverity, RdmaSurvey, survey_rdma,
};
use te_topology::{Gid, GidType};

use super::wrap::wrapped;
use crate::error::chain;

/// What there is, or why there is nothing.
pub(crate) struct Rdma(Result<RdmaSurvey, String>);

impl Rdma {
    pub(crate) fn look(config: &EngineConfig) -> Self {
        Self(survey_rdma(config).map_err(|absence| chain(&absence)))
    }

    /// Lines of at most `columns` where words allow it.
    pub(crate) fn table(&self, columns: usize) -> String {
        let survey = match &self.0 {
            Ok(survey) => survey,
            Err(absence) => return wrapped("RDMA: ", absence, columns),
        };
        let mut text = String::from("RDMA devices, as the verbs library has them\n");
        survey.devices.iter().for_each(|device| text.push_str(&lines(device)));
        if survey.devices.is_empty() {
            text.push_str("  none\n");
        }
        for finding in &survey.findings {
            let told = format!("{}; {}", chain(finding), finding.advice());
            text.push_str(&wrapped("  ! ", &told, columns));
        }
        text
    }

    /// The shape is described in `docs/topo.md`.
    pub(crate) fn json(&self) -> Value {
        match &self.0 {
            Err(absence) => json!({ "absence": absence, "devices": [], "findings": [] }),
            Ok(RdmaSurvey { devices, findings, .. }) => json!({
                "absence": null,
                "devices": devices.iter().map(device).collect::<Vec<_>>(),
                "findings": findings.iter().map(finding).collect::<Vec<_>>(),
            }),
        }
    }
}

fn lines(device: &RdmaDevice) -> String {
    let RdmaDevice { name, is_allowed, ports, .. } = device;
    let left_out = if *is_allowed { "" } else { ", left out by the settings" };
    let mut text = format!("  {name}{left_out}\n");
    for port in ports {
        let RdmaPort { number, attributes: a, .. } = port;
        let rate = match a.gbit_per_s {
            0 => "speed unknown".to_owned(),
            rate => format!("{rate} Gb/s"),
        };
        let lid = if a.lid == 0 { String::new() } else { format!(", LID {}", a.lid) };
        let state = state(port);
        let link = a.link_layer;
        let mtu = a.active_mtu;
        text.push_str(&format!("    port {number}  {state}, {link:?}, MTU {mtu}, {rate}{lid}\n"));
        port.gids.iter().for_each(|row| text.push_str(&line(row, port)));
        if let Some(chosen) = &port.chosen {
            let (index, why) = (chosen.index, chosen.class);
            let when = if state == "active" { "" } else { " once the port is active" };
            text.push_str(&format!("      GID {index} is used{when}: {why}\n"));
        }
    }
    text
}

fn line(row: &GidRow, port: &RdmaPort) -> String {
    let is_chosen = port.chosen.as_ref().is_some_and(|chosen| chosen.index == row.entry.index);
    let mark = if is_chosen { '*' } else { ' ' };
    let interface = row.entry.interface.as_deref().unwrap_or("no interface here");
    let (index, gid, kind) = (row.entry.index, short(row.entry.gid), kind(row.entry.kind));
    format!("    {mark} {index:>3}  {gid:<39}  {kind:<7}  {interface}\n")
}

fn short(gid: Gid) -> String {
    Ipv6Addr::from(gid.bytes()).to_string()
}

fn kind(kind: GidType) -> &'static str {
    match kind {
        GidType::Ib => "IB",
        GidType::RoceV1 => "RoCE v1",
        GidType::RoceV2 => "RoCE v2",
        _ => "other",
    }
}

fn state(port: &RdmaPort) -> String {
    format!("{:?}", port.attributes.state).to_lowercase()
}

fn device(device: &RdmaDevice) -> Value {
    let limits = device.attributes.as_ref().map(|limits| {
        json!({
            "max_mr_size": limits.max_mr_size,
            "max_qp": limits.max_qp,
            "max_qp_wr": limits.max_qp_wr,
            "max_sge": limits.max_sge,
            "max_cq": limits.max_cq,
            "max_cqe": limits.max_cqe,
            "max_reads_as_target": limits.max_qp_rd_atom,
            "max_reads_as_initiator": limits.max_qp_init_rd_atom,
        })
    });
    json!({
        "name": device.name.as_str(),
        "allowed": device.is_allowed,
        "limits": limits,
        "ports": device.ports.iter().map(port).collect::<Vec<_>>(),
    })
}

fn port(port: &RdmaPort) -> Value {
    let a = &port.attributes;
    let row = |row: &GidRow| {
        json!({
            "index": row.entry.index,
            "gid": row.entry.gid,
            "kind": row.entry.kind,
            "interface": row.entry.interface,
            "class": row.class,
        })
    };
    let chosen = port.chosen.as_ref().map(|chosen| {
        json!({ "index": chosen.index, "gid": chosen.gid, "reason": chosen.class.reason() })
    });
    json!({
        "number": port.number,
        "state": state(port),
        "link_layer": format!("{:?}", a.link_layer),
        "active_mtu": a.active_mtu.bytes(),
        "lid": a.lid,
        "gbit_per_s": a.gbit_per_s,
        "pkey_rows": a.pkey_rows,
        "gid_rows": a.gid_rows,
        "gids": port.gids.iter().map(row).collect::<Vec<_>>(),
        "chosen": chosen,
    })
}

fn finding(finding: &RdmaFinding) -> Value {
    let severity = match finding.severity() {
        RdmaSeverity::Advice => "advice",
        RdmaSeverity::Nic => "nic",
        RdmaSeverity::Fatal => "fatal",
    };
    json!({
        "severity": severity,
        "nic": finding.nic().map(|nic| nic.as_str()),
        "text": chain(finding),
        "advice": finding.advice(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_absent_is_one_reason() {
        let rdma = Rdma(Err("the verbs library cannot be used: it is not installed".to_owned()));
        let text = rdma.table(40);
        assert_eq!(text, "RDMA: the verbs library cannot be used:\n      it is not installed\n");
        assert_eq!(rdma.json()["devices"], json!([]));
        assert!(rdma.json()["absence"].as_str().unwrap().contains("not installed"));
    }

    #[test]
    fn a_host_without_devices_says_so_and_what_to_do() {
        let findings = vec![RdmaFinding::NoDevice];
        let rdma = Rdma(Ok(RdmaSurvey { devices: Vec::new(), findings }));
        let text = rdma.table(100);
        assert!(text.contains("\n  none\n  ! there is no RDMA device; load the driver"), "{text}");
        assert_eq!(rdma.json()["findings"][0]["severity"], "fatal");
    }
}
