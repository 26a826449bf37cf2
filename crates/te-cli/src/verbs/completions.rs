//! `te completions`

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::output;

pub(crate) fn run(shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "te", &mut script);
    output::text(&String::from_utf8_lossy(&script))
}
