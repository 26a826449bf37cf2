//! The suite `capi`: the C library of te-capi under programs in C, C++ and Go.
//!
//! The library and its headers are put into a folder as they would be installed, and everything is built
//! from there. Programs in `crates/te-capi/tests/c` report like Rust's test harness, so that each of
//! their tests has a result of its own.

mod install;
mod symbols;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::artifacts::{self, TestProgram};
use crate::debian;
use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::run;
use crate::runner::{Choice, Runner};
use crate::suites::Order;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;
use install::Installed;

/// Compilers and tools.
const TOOLS: &[&str] = &["gcc", "g++", "binutils", "pkg-config", "valgrind"];

/// How long one program may take, and one compilation.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    if let Some(by_hand) = debian::install(journal, TOOLS)? {
        return Ok(vec![skipped("(all)", &format!("tools for C are missing; by hand: {by_hand}"))]);
    }
    artifacts::build_programs(workspace, journal, &["--package", "te-capi"])?;
    let installed = install::install(workspace)?;
    let mut suite = Suite { workspace, journal, order, installed };
    let mut results = Vec::new();
    for program in PROGRAMS {
        results.extend(suite.program(program)?);
    }
    results.extend(suite.check("symbols::a101_a121_exactly_those_of_the_headers", |suite| {
        symbols::compare(suite.workspace, &suite.installed.library)
    })?);
    results.extend(suite.check("symbols::fb53_only_the_c_library_is_needed", |suite| {
        symbols::light(&suite.installed.library)
    })?);
    for example in EXAMPLES {
        results.extend(suite.example(example)?);
    }
    Ok(results)
}

/// One program of tests, and one way of running it.
struct Program {
    /// What begins the names of its tests, after `te_capi::`.
    prefix: &'static str,
    /// In `crates/te-capi/tests/c`.
    source: &'static str,
    compiler: &'static [&'static str],
    /// Variables for the tests.
    env: &'static [(&'static str, &'static str)],
    /// A program that watches, with its flags.
    under: &'static [&'static str],
    /// Tests that say nothing there. Parts of names.
    without: &'static [&'static str],
}

const C: &[&str] = &["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-O1"];
const CPP: &[&str] = &["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-g", "-O1"];
const TCP: &[(&str, &str)] = &[("MC_FORCE_TCP", "1")];

/// Errors of memory end a test with 9; so does what was allocated and is lost. What a library keeps for
/// the life of the process can be reached, and is not lost.
const VALGRIND: &[&str] = &[
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
    concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/valgrind.supp"),
];

const PROGRAMS: &[Program] = &[
    Program {
        prefix: "layouts",
        source: "layouts.c",
        compiler: C,
        env: &[],
        under: &[],
        without: &[],
    },
    Program { prefix: "calls", source: "calls.c", compiler: C, env: &[], under: &[], without: &[] },
    Program {
        prefix: "calls_over_tcp",
        source: "calls.c",
        compiler: C,
        env: TCP,
        under: &[],
        without: &[],
    },
    Program { prefix: "pairs", source: "pairs.c", compiler: C, env: &[], under: &[], without: &[] },
    Program {
        prefix: "cpp",
        source: "owners.cpp",
        compiler: CPP,
        env: &[],
        under: &[],
        without: &[],
    },
    Program {
        prefix: "valgrind",
        source: "calls.c",
        compiler: C,
        env: TCP,
        under: VALGRIND,
        without: &[],
    },
];

/// A program that users read. It says in one line that all went well.
struct Example {
    name: &'static str,
    /// In `crates/te-capi/examples`: a source, or a folder of Go.
    source: &'static str,
    compiler: &'static [&'static str],
}

/// What that line begins with.
const GOOD: &str = "ok: ";

const EXAMPLES: &[Example] = &[
    Example { name: "c", source: "pair.c", compiler: C },
    Example { name: "cpp", source: "pair.cpp", compiler: CPP },
    Example { name: "go", source: "pair-go", compiler: &[] },
];

struct Suite<'a> {
    workspace: &'a Workspace,
    journal: &'a mut Journal,
    order: &'a Order,
    installed: Installed,
}

impl Suite<'_> {
    /// Builds a program of tests and runs it.
    fn program(&mut self, program: &Program) -> anyhow::Result<Vec<TestResult>> {
        let source = format!("crates/te-capi/tests/c/{}", program.source);
        let built = self.compile(program.compiler, &source)?;
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let runner = Runner {
            workspace: self.workspace,
            level: self.order.level,
            env: program.env.iter().map(owned).collect(),
            one_by_one: false,
            limit: LIMIT,
            filter: self.order.filter.clone(),
        };
        let test = TestProgram {
            package: "te-capi".to_owned(),
            prefix: format!("te_capi::{}", program.prefix),
            program: built,
            folder: self.workspace.path("crates/te-capi"),
        };
        let choice =
            Choice { under: program.under, skip: program.without.to_vec(), only: Vec::new() };
        runner.run_some(self.journal, &test, &choice)
    }

    /// Builds a source with the flags that pkg-config gives.
    fn compile(&mut self, compiler: &[&str], source: &str) -> anyhow::Result<PathBuf> {
        let name = source.replace(['/', '.'], "-");
        let program = self.workspace.output(&format!("capi/bin/{name}"))?;
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).arg(self.workspace.path(source)).arg("-o").arg(&program);
        command.args(self.installed.flags()?).arg("-lpthread");
        let ended = run::quietly(command, self.journal, LIMIT)?;
        if !ended.is_good() {
            ui::say(&self.journal.tail(40)?);
        }
        ensure!(ended.is_good(), "{source} does not compile");
        Ok(program)
    }

    /// Builds an example, runs it and looks for its good line.
    fn example(&mut self, example: &Example) -> anyhow::Result<Option<TestResult>> {
        let name = format!("examples::{}", example.name);
        if !self.is_wanted(&name) {
            return Ok(None);
        }
        let source = format!("crates/te-capi/examples/{}", example.source);
        if !example.compiler.is_empty() {
            let program = self.compile(example.compiler, &source)?;
            return self.run_example(&name, &program).map(Some);
        }
        if let Some(by_hand) = debian::install(self.journal, &["golang-go"])? {
            return Ok(Some(skipped(&name, &format!("Go is missing; by hand: {by_hand}"))));
        }
        let Some(program) = self.build_go(&source)? else {
            return Ok(Some(told(&name, Outcome::Failed("it does not build".into()), None)));
        };
        self.run_example(&name, &program).map(Some)
    }

    fn build_go(&mut self, source: &str) -> anyhow::Result<Option<PathBuf>> {
        let program = self.workspace.output("capi/bin/pair-go")?;
        let mut command = Command::new("go");
        command.args(["build", "-o"]).arg(&program).arg(".");
        command.current_dir(self.workspace.path(source));
        command.env("PKG_CONFIG_PATH", self.installed.pkg_config());
        command.env("GOCACHE", self.workspace.output("capi/go-cache")?);
        command.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").env("GO111MODULE", "on");
        let ended = run::quietly(command, self.journal, LIMIT)?;
        if !ended.is_good() {
            ui::say(&self.journal.tail(40)?);
        }
        Ok(ended.is_good().then_some(program))
    }

    fn run_example(&mut self, name: &str, program: &Path) -> anyhow::Result<TestResult> {
        let watch = Stopwatch::start();
        let mut command = Command::new(program);
        crate::runner::forget_settings(&mut command);
        command.env("LD_LIBRARY_PATH", self.installed.folder.join("lib"));
        let mut is_good = false;
        let ended = run::stream(command, self.journal, LIMIT, |line| {
            is_good |= line.starts_with(GOOD);
        })?;
        let outcome = match (ended.is_good(), is_good) {
            (true, true) => Outcome::Passed,
            (true, false) => Outcome::Failed("it does not say that all went well".to_owned()),
            (false, _) => Outcome::Failed(ended.text()),
        };
        Ok(told(name, outcome, Some(watch)))
    }

    /// A test that is no program.
    fn check(
        &mut self,
        name: &str,
        look: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<TestResult>> {
        if !self.is_wanted(name) {
            return Ok(None);
        }
        let watch = Stopwatch::start();
        let outcome = match look(self) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        Ok(Some(told(name, outcome, Some(watch))))
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.order.filter.as_ref().is_none_or(|text| name.contains(text))
    }
}

fn told(name: &str, outcome: Outcome, watch: Option<Stopwatch>) -> TestResult {
    let time = watch.map(Stopwatch::elapsed);
    let shown = watch.map(Stopwatch::text).unwrap_or_default();
    let why = match outcome.reason() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    ui::say(&format!("  {:<8} {shown:>9}  te_capi::{name}{why}", outcome.word()));
    TestResult { id: format!("te_capi::{name}"), outcome, time }
}

fn skipped(name: &str, reason: &str) -> TestResult {
    told(name, Outcome::Skipped(reason.to_owned()), None)
}
