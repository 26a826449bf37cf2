//! The guest part of the suite `topology`: what `te topo` finds on an emulated machine is what the
//! machine was made with, and the kernel of that machine answers where memory lies.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::guest::end::End;
use crate::guest::libraries;
use crate::guest::machine::Machine;
use crate::guest::prepare::{self, Ready, Store};
use crate::guest::request::Request;
use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::suites::Order;
use crate::ui::{self, Stopwatch, seconds};
use crate::workspace::Workspace;

/// Nodes with NICs; a node without any; nothing that says a node.
const MACHINES: &[&str] = &["numa2", "memory-node", "no-numa"];

/// Programs of this machine that are run in guests.
#[derive(Debug)]
pub(crate) struct Programs {
    /// `te`.
    pub(crate) te: PathBuf,
    /// Tests of te-topology that ask the kernel.
    pub(crate) kernel_tests: PathBuf,
}

/// Boots each machine once.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
    programs: &Programs,
) -> anyhow::Result<Vec<TestResult>> {
    let id =
        |name: &str| format!("guest::affinity_of_{}_is_as_it_was_made", name.replace('-', "_"));
    let is_wanted = |name: &&&str| order.filter.as_ref().is_none_or(|text| id(name).contains(text));
    let wanted: Vec<&str> = MACHINES.iter().filter(is_wanted).copied().collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let store = match prepare::prepare(workspace, journal)? {
        Ready::Yes(store) => store,
        Ready::No(why) => {
            ui::say(&format!("  skipped: {why}"));
            return Ok(vec![TestResult::new("guest::affinity", Outcome::Skipped(why))]);
        }
    };
    wanted.into_iter().map(|name| run_one(&store, journal, (id(name), name), programs)).collect()
}

fn run_one(
    store: &Store,
    journal: &mut Journal,
    (id, name): (String, &str),
    programs: &Programs,
) -> anyhow::Result<TestResult> {
    let watch = Stopwatch::start();
    let mut printed = Vec::new();
    let checked = Machine::named(name)
        .and_then(|machine| is_found_as_made(store, &machine, programs, &mut printed));
    let text = String::from_utf8_lossy(&printed).into_owned();
    journal.line(&format!("$ {id}\n{text}"))?;
    let outcome = match checked {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    let time = watch.elapsed();
    ui::say(&format!("  {:<8} {:>9}  {id}", outcome.word(), seconds(time)));
    if let Outcome::Failed(why) = &outcome {
        ui::say(&format!("\n{} {id}\n{why}\n{}\n", ui::bold("FAILED"), text.trim()));
    }
    Ok(TestResult { id, outcome, time: Some(time) })
}

fn is_found_as_made(
    store: &Store,
    machine: &Machine,
    programs: &Programs,
    printed: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let out = store.folder.join("runs").join(format!("affinity-{}", std::process::id()));
    let _ = fs::remove_dir_all(&out);
    let [te, tests] =
        [&programs.te, &programs.kernel_tests].map(|file| libraries::guest_path(file));
    let (te, tests) = (te?, tests?);
    let script = format!(
        "{te} topo --json >/out/json; {te} topo --classic-json >/out/classic; {te} topo; {tests}"
    );
    let command = ["sh", "-e", "-c", &script].map(str::to_owned).to_vec();
    let mut request = Request::new(machine.clone(), command);
    request.files.insert(te, programs.te.clone());
    request.files.insert(tests, programs.kernel_tests.clone());
    request.out = Some(out.clone());
    let report = request.run(store, &mut |_, bytes| printed.extend_from_slice(bytes))?;
    ensure!(report.end == End::Exit(0), "{}", report.end.text());
    let (json, classic) = (read(&out.join("json"))?, read(&out.join("classic"))?);
    fs::remove_dir_all(&out).context("cannot clean up")?;
    nics_are_placed(&json, machine)?;
    nodes_have_processors(&json, machine)?;
    let made = matrix(machine);
    ensure!(classic == made, "the matrix is {classic}, and the machine was made as {made}");
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Value> {
    let told = || format!("there is no JSON in {}", file.display());
    let text = fs::read_to_string(file).with_context(told)?;
    serde_json::from_str(&text).with_context(told)
}

/// Each NIC is known as one in software on a card, near to what that card is near to: its node, or
/// the only one, whose CPUs the kernel calls local where it names no node.
fn nics_are_placed(json: &Value, machine: &Machine) -> anyhow::Result<()> {
    let nics = json["machine"]["nics"].as_array().context("there are no NICs")?;
    ensure!(nics.len() == machine.n_devices(), "{} NICs", nics.len());
    for (index, (nic, node)) in nics.iter().zip(machine.device_nodes()).enumerate() {
        let near = json!({ "nodes": [node.unwrap_or(0)], "certainty": "inferred" });
        let is_so = nic["name"] == format!("rxe{index}")
            && nic["kind"] == "software"
            && nic["near"] == near
            && nic["pci"].is_u64()
            && nic["ports"][0]["state"] == "active";
        ensure!(is_so, "{nic} is not rxe{index} near {near}");
    }
    Ok(())
}

fn nodes_have_processors(json: &Value, machine: &Machine) -> anyhow::Result<()> {
    let nodes = json["machine"]["nodes"].as_array().context("there are no nodes")?;
    ensure!(nodes.len() == n_nodes(machine), "{} nodes", nodes.len());
    let mut first = 0;
    for (found, node) in nodes.iter().zip(&machine.nodes) {
        let cpus = match node.n_cpus {
            0 => String::new(),
            n => format!("{first}-{}", first + n - 1),
        };
        ensure!(found["cpus"] == cpus, "{found} has not the CPUs {cpus}");
        first += node.n_cpus;
    }
    Ok(())
}

/// A machine that says nothing of nodes is one.
fn n_nodes(machine: &Machine) -> usize {
    machine.nodes.len().max(1)
}

/// Who prefers whom, from what the machine was made of: the NICs of the nearest nodes that have
/// some, then the others, near ones first. All are equally fast.
fn matrix(machine: &Machine) -> Value {
    let far = |a: usize, b: usize| match a.abs_diff(b) {
        0 => 10,
        1 => 21,
        _ => 31,
    };
    let nodes = machine.device_nodes();
    let row = |memory: usize| {
        let rank = |nic: usize| far(memory, nodes[nic].unwrap_or(0));
        let mut nics: Vec<usize> = (0..nodes.len()).collect();
        nics.sort_by_key(|nic| (rank(*nic), *nic));
        let best = nics.iter().map(|nic| Reverse(rank(*nic))).max();
        let (preferred, available): (Vec<usize>, Vec<usize>) =
            nics.iter().partition(|nic| Some(Reverse(rank(**nic))) == best);
        let names =
            |list: Vec<usize>| list.iter().map(|nic| format!("rxe{nic}")).collect::<Vec<_>>();
        json!([names(preferred), names(available)])
    };
    (0..n_nodes(machine)).map(|node| (format!("cpu:{node}"), row(node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> String {
        matrix(&Machine::named(name).unwrap()).to_string()
    }

    #[test]
    fn the_true_matrix_follows_from_how_a_machine_is_made() {
        let numa2 = r#"{"cpu:0":[["rxe0","rxe1"],["rxe2","rxe3"]],"cpu:1":[["rxe2","rxe3"],["rxe0","rxe1"]]}"#;
        assert_eq!(made("numa2"), numa2);
        assert_eq!(made("no-numa"), r#"{"cpu:0":[["rxe0","rxe1"],[]]}"#);
        assert!(made("memory-node").contains(r#""cpu:2":[["rxe1"],["rxe0"]]"#));
    }

    #[test]
    fn machines_that_are_booted_are_there() {
        assert!(MACHINES.iter().all(|name| Machine::named(name).is_ok()));
    }
}
