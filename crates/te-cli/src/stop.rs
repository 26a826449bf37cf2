//! Why a serving program ends: a signal, or the end of standard input.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::CliError;

/// What a person at a shell gives for a program that a second Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Gives one message when it is time to end. A second signal ends the process at once.
pub(crate) fn watch(until_eof: bool) -> Result<Receiver<()>, CliError> {
    let (sender, receiver) = mpsc::channel();
    let failed = |cause: io::Error| {
        CliError::new(
            crate::error::Failure::Local,
            "cannot watch signals",
            crate::error::system_text(&cause),
        )
    };
    let signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let on_signal = sender.clone();
    spawn("te-signals", move || wait_for_signals(signals, &on_signal)).map_err(failed)?;
    if until_eof {
        spawn("te-stdin", move || wait_for_eof(&sender)).map_err(failed)?;
    }
    Ok(receiver)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

fn wait_for_signals(mut signals: Signals, stop: &Sender<()>) {
    for (n, _) in signals.forever().enumerate() {
        if n > 0 {
            std::process::exit(INTERRUPTED);
        }
        // Nobody waits any more only when the program is ending already.
        let _ = stop.send(());
    }
}

fn wait_for_eof(stop: &Sender<()>) {
    let mut block = [0; 4096];
    let mut input = io::stdin();
    loop {
        match input.read(&mut block) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    let _ = stop.send(());
}
