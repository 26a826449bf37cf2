//! Running test programs and turning what they print into results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::artifacts::{TestProgram, read_if_there};
use crate::flags::Level;
use crate::journal::Journal;
use crate::libtest::{self, Parser, Verdict};
use crate::outcome::{Outcome, Tally, TestResult};
use crate::run::{self, Ended};
use crate::skips::SkipLog;
use crate::suites::Order;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// How to run test programs.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    /// Where.
    pub(crate) workspace: &'a Workspace,
    /// How much: the tests find `TE_FULL=1` in their environment at the full level.
    pub(crate) level: Level,
    /// More variables for the tests.
    pub(crate) env: Vec<(String, String)>,
    /// One test after the other, each shown as it ends, with all that it prints kept in the log:
    /// for system tests, which use the whole machine and whose figures are of interest.
    pub(crate) one_by_one: bool,
    /// How long one program may run.
    pub(crate) limit: Duration,
    /// Only tests whose name contains this.
    pub(crate) filter: Option<String>,
}

impl<'a> Runner<'a> {
    /// One for whole test programs: no more variables, 15 minutes each.
    pub(crate) fn new(workspace: &'a Workspace, order: &Order) -> Self {
        Self {
            workspace,
            level: order.level,
            env: Vec::new(),
            one_by_one: false,
            limit: Duration::from_secs(900),
            filter: order.filter.clone(),
        }
    }
}

/// Which tests of a program are run, and how it is started.
#[derive(Debug, Default)]
pub(crate) struct Choice<'a> {
    /// A program that watches the test program, with its flags; none starts it directly.
    pub(crate) under: &'a [&'a str],
    /// Only tests whose name contains one of these, beside the runner's own filter; none runs all.
    pub(crate) only: Vec<&'a str>,
    /// Tests whose name contains one of these are left out.
    pub(crate) skip: Vec<&'a str>,
}

impl Choice<'_> {
    fn command(&self, program: &TestProgram) -> Command {
        let mut command = match self.under.split_first() {
            None => Command::new(&program.program),
            Some((watcher, flags)) => {
                let mut command = Command::new(watcher);
                command.args(flags).arg(&program.program);
                command
            }
        };
        command.args(&self.only).args(self.skip.iter().flat_map(|name| ["--skip", name]));
        command
    }
}

impl Runner<'_> {
    /// Runs one program.
    pub(crate) fn run_program(
        &self,
        journal: &mut Journal,
        program: &TestProgram,
    ) -> anyhow::Result<Vec<TestResult>> {
        self.run_some(journal, program, &Choice::default())
    }

    /// Runs some tests of a program.
    pub(crate) fn run_some(
        &self,
        journal: &mut Journal,
        program: &TestProgram,
        choice: &Choice<'_>,
    ) -> anyhow::Result<Vec<TestResult>> {
        let mut command = choice.command(program);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        command.args(self.filter.iter());
        if self.one_by_one {
            command.args(["--test-threads", "1", "--show-output"]);
        }
        let sections = Sections::of(&program.prefix);
        self.run_command(journal, sections, command)
    }

    /// Runs the documentation's examples through `command`, a `cargo test --doc`.
    pub(crate) fn run_doc_tests(
        &self,
        journal: &mut Journal,
        command: Command,
    ) -> anyhow::Result<Vec<TestResult>> {
        self.run_command(journal, Sections::default(), command)
    }

    /// Runs a `cargo test` of one package; `prefix` begins the names of its tests.
    pub(crate) fn run_cargo_test(
        &self,
        journal: &mut Journal,
        prefix: &str,
        command: Command,
    ) -> anyhow::Result<Vec<TestResult>> {
        let sections = Sections::of(prefix);
        self.run_command(journal, sections, command)
    }

    fn run_command(
        &self,
        journal: &mut Journal,
        mut sections: Sections,
        mut command: Command,
    ) -> anyhow::Result<Vec<TestResult>> {
        let skip_log = self.fresh_skip_log()?;
        self.set_environment(&mut command, &skip_log);
        let watch = Stopwatch::start();
        let mut last = watch.elapsed();
        let mut times = Vec::new();
        let ended = run::stream(command, journal, self.limit, |line| {
            if let Some((name, verdict)) = sections.feed(line) {
                let time = watch.elapsed().saturating_sub(last);
                last = watch.elapsed();
                times.push(time);
                if self.one_by_one {
                    show_test(name, verdict, time, &skip_log);
                }
            }
        })?;
        let skips = SkipLog::parse(&read_if_there(&skip_log)?);
        let mut results = assemble(&sections, &skips, ended);
        if self.one_by_one {
            results.iter_mut().zip(times).for_each(|(result, time)| result.time = Some(time));
        }
        self.show(&results, &sections, watch);
        Ok(results)
    }

    fn fresh_skip_log(&self) -> anyhow::Result<PathBuf> {
        let path = self.workspace.output("skips.tsv")?;
        std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn set_environment(&self, command: &mut Command, skip_log: &Path) {
        forget_settings(command);
        command.env("TE_SKIP_LOG", skip_log);
        command.envs((self.level == Level::Full).then_some(("TE_FULL", "1")));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
    }

    fn show(&self, results: &[TestResult], sections: &Sections, watch: Stopwatch) {
        for (prefix, parser) in sections.list.iter().filter(|(_, parser)| !parser.seen().is_empty())
        {
            let mine = results.iter().filter(|result| belongs(result, prefix));
            let tally = Tally::of(mine).to_string();
            if self.one_by_one {
                show_figures(parser);
            } else {
                // Sections of one run have one time together; the last one shows it.
                ui::say(&format!("  {prefix:<36} {tally:<34} {:>9}", watch.text()));
            }
            show_failures(results, prefix, parser);
        }
    }
}

/// Takes away the variables that tune a Mooncake or one of our engines: a test must mean the same
/// on every machine.
pub(crate) fn forget_settings(command: &mut Command) {
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| tunes_an_engine(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// A seed to replay, how much chaos there shall be and where the data of real machines lie are what
/// a person says to a test through the environment.
fn tunes_an_engine(name: &str) -> bool {
    let is_said = name.contains("SEED") || [CHAOS_SECONDS, REAL_DATA].contains(&name);
    name.starts_with("MC_") || name.starts_with("TE_") && !is_said
}

/// How long the chaos run of the suite `lifecycle` goes on.
pub(crate) const CHAOS_SECONDS: &str = "TE_CHAOS_SECONDS";

/// The folder with the data of real machines, if it is not `../shared/real-data`.
const REAL_DATA: &str = "TE_REAL_DATA";

fn belongs(result: &TestResult, prefix: &str) -> bool {
    name_in(result, prefix).is_some()
}

/// The name of a test without the prefix of its program.
fn name_in<'a>(result: &'a TestResult, prefix: &str) -> Option<&'a str> {
    result.id.strip_prefix(prefix)?.strip_prefix("::")
}

fn show_failures(results: &[TestResult], prefix: &str, parser: &Parser) {
    let captured = parser.captured();
    for result in results.iter().filter(|result| belongs(result, prefix)) {
        if !matches!(result.outcome, Outcome::Failed(_)) {
            continue;
        }
        let printed = name_in(result, prefix).and_then(|name| captured.get(name));
        let printed = printed.map(|lines| without_backtrace(lines).join("\n")).unwrap_or_default();
        let why = if printed.is_empty() { result.outcome.reason() } else { printed.trim() };
        ui::say(&format!("\n{} {}\n{}\n", ui::bold("FAILED"), result.id, why));
    }
}

/// What comes before a backtrace; the log has all of it.
fn without_backtrace<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let end = lines.iter().position(|line| *line == "stack backtrace:");
    &lines[..end.unwrap_or(lines.len())]
}

/// What one command printed, cut where it begins to speak of another crate: a run of doc tests
/// covers several.
#[derive(Debug, Default)]
struct Sections {
    list: Vec<(String, Parser)>,
    /// What the doc tests are named after where it is not the crate that they belong to.
    package: Option<String>,
}

impl Sections {
    /// Of a command that tests one thing, whose name this is.
    fn of(name: &str) -> Self {
        let list = vec![(name.to_owned(), Parser::default())];
        Self { list, package: Some(name.to_owned()) }
    }

    fn feed(&mut self, line: &str) -> Option<&(String, Verdict)> {
        if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            let own = self.package.as_ref().map(|package| format!("{package}/doc"));
            self.list.push((own.unwrap_or_else(|| format!("{name}::doc")), Parser::default()));
            return None;
        }
        self.list.last_mut()?.1.feed(line)
    }
}

fn show_test(name: &str, verdict: &Verdict, time: Duration, skip_log: &Path) {
    let skips = read_if_there(skip_log).unwrap_or_default();
    let word = match verdict {
        Verdict::Ok if SkipLog::parse(&skips).reason(name).is_some() => "skipped",
        Verdict::Ok => "ok",
        Verdict::Failed => "FAILED",
        Verdict::Ignored(_) => "ignored",
    };
    ui::say(&format!("  {word:<8} {:>9}  {name}", ui::seconds(time)));
}

/// What system tests measured: lines that begin with `row `.
fn show_figures(parser: &Parser) {
    let lines = parser.captured().into_values().flatten();
    let figures: Vec<&str> = lines.filter_map(|line| line.strip_prefix("row ")).collect();
    if !figures.is_empty() {
        ui::say("  before and after each case:");
        figures.iter().for_each(|line| ui::say(&format!("    {line}")));
    }
}

/// Puts together what the harness printed, what the skip log says and how the program ended.
fn assemble(sections: &Sections, skips: &SkipLog, ended: Ended) -> Vec<TestResult> {
    let mut results: Vec<TestResult> = Vec::new();
    for (prefix, parser) in &sections.list {
        results.extend(section_results(prefix, parser, skips));
    }
    let prefix = sections.list.first().map_or("doc", |(prefix, _)| prefix.as_str());
    let names: Vec<&str> = sections.list.iter().flat_map(|(_, parser)| names(parser)).collect();
    for stranger in skips.strangers(&names) {
        let why = format!("the skip log names `{stranger}`, which is no test of this program");
        results.push(TestResult::new(format!("{prefix}::(skip log)"), Outcome::Failed(why)));
    }
    let complaints = sections.list.iter().filter_map(|(_, parser)| parser.complaint());
    let any_failed = results.iter().any(|result| matches!(result.outcome, Outcome::Failed(_)));
    for why in denial(ended, any_failed).into_iter().chain(complaints) {
        let id = format!("{prefix}::(the program itself)");
        results.push(TestResult::new(id, Outcome::Failed(why)));
    }
    results
}

fn names(parser: &Parser) -> impl Iterator<Item = &str> {
    parser.seen().iter().map(|(name, _)| name.as_str())
}

fn section_results(prefix: &str, parser: &Parser, skips: &SkipLog) -> Vec<TestResult> {
    let captured = parser.captured();
    let outcome = |name: &str, verdict: &Verdict| match verdict {
        Verdict::Ok => match skips.reason(name) {
            Some(reason) => Outcome::Skipped(reason.to_owned()),
            None => Outcome::Passed,
        },
        Verdict::Ignored(why) if why.is_empty() => Outcome::Skipped("ignored in its source".into()),
        Verdict::Ignored(why) => Outcome::Skipped(why.clone()),
        Verdict::Failed => {
            Outcome::Failed(libtest::first_words(captured.get(name).map_or(&[], Vec::as_slice)))
        }
    };
    let result = |(name, verdict): &(String, Verdict)| {
        TestResult::new(format!("{prefix}::{name}"), outcome(name, verdict))
    };
    parser.seen().iter().map(result).collect()
}

/// What an exit says that the lines did not say: it crashed, hung, or failed for another reason
/// than a test.
fn denial(ended: Ended, any_failed: bool) -> Option<String> {
    match ended {
        Ended::Exit(0) => None,
        Ended::Exit(_) if any_failed => None,
        Ended::Exit(_) => Some(format!("{}, though no test failed", ended.text())),
        Ended::Signal(_) | Ended::TimedOut(_) => Some(ended.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(text: &str, skips: &str, ended: Ended) -> Vec<(String, Outcome)> {
        let mut sections = Sections::of("te_x");
        for line in text.lines() {
            sections.feed(line);
        }
        let all = assemble(&sections, &SkipLog::parse(skips), ended);
        all.into_iter().map(|result| (result.id, result.outcome)).collect()
    }

    const TWO: &str = "test m::a ... ok\ntest b ... ok\ntest result: ok. 2 passed; 0 failed\n";

    #[test]
    fn only_what_a_person_says_to_a_test_reaches_it() {
        let reach = ["TE_CHAOS_SECONDS", "TE_CHAOS_SEED", "TE_SIM_SEEDS", "TE_REAL_DATA", "PATH"];
        assert!(!reach.into_iter().any(tunes_an_engine));
        assert!(["MC_TCP_PROTO", "TE_TCP_PROTO", "TE_FULL"].into_iter().all(tunes_an_engine));
    }

    #[test]
    fn a_test_in_the_skip_log_is_not_a_pass() {
        let found = results(TWO, "m::a\tno device\n", Ended::Exit(0));
        let skipped = Outcome::Skipped("no device".into());
        assert_eq!(found, [("te_x::m::a".into(), skipped), ("te_x::b".into(), Outcome::Passed)]);
    }

    #[test]
    fn a_skip_of_no_known_test_fails() {
        let found = results(TWO, "main\tno device\n", Ended::Exit(0));
        assert!(matches!(&found[2].1, Outcome::Failed(why) if why.contains("`main`")));
    }

    #[test]
    fn a_crash_after_passing_tests_fails() {
        let found = results("test a ... ok\n", "", Ended::Signal(11));
        assert_eq!(found[1].1, Outcome::Failed("ended by signal 11".into()));
        assert_eq!(found[2].1, Outcome::Failed("it ended without a summary".into()));
    }

    #[test]
    fn an_exit_code_that_denies_the_lines_fails() {
        let found = results(TWO, "", Ended::Exit(101));
        assert_eq!(found[2].1, Outcome::Failed("exit code 101, though no test failed".into()));
    }

    #[test]
    fn a_failed_test_carries_the_words_of_its_panic() {
        let text = "test a ... FAILED\nfailures:\n---- a stdout ----\nthread 'a' panicked at x:1:1:\n\
                    bytes differ at 17\ntest result: FAILED. 0 passed; 1 failed\n";
        let found = results(text, "", Ended::Exit(101));
        assert_eq!(found, [("te_x::a".into(), Outcome::Failed("bytes differ at 17".into()))]);
    }

    #[test]
    fn doc_tests_are_told_apart_by_crate() {
        let mut sections = Sections::default();
        let text = "   Doc-tests te_a\ntest src/lib.rs - (line 3) ... ok\n\
                    test result: ok. 1 passed; 0 failed\n   Doc-tests te_b\n\
                    test src/lib.rs - (line 3) ... ok\ntest result: ok. 1 passed; 0 failed\n";
        for line in text.lines() {
            sections.feed(line);
        }
        let all = assemble(&sections, &SkipLog::default(), Ended::Exit(0));
        let ids: Vec<&str> = all.iter().map(|result| result.id.as_str()).collect();
        assert_eq!(ids, ["te_a::doc::src/lib.rs - (line 3)", "te_b::doc::src/lib.rs - (line 3)"]);
    }
}
