//! The program `te`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(te_cli::main(te_cli::Program::this(), std::env::args_os()))
}
