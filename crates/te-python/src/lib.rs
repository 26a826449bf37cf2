//! The extension module `te_engine._native`: the engine for Python programs.
//!
//! Two surfaces over one engine: `engine.rs` with its regions, segments and transfers, whose failures
//! are exceptions, and `compat.rs` with the calls of Mooncake's class, whose failures are numbers. What
//! they do is te-compat's business; here are names, argument types, and the ways of the interpreter:
//!
//! I1  No call that may block, or take longer than tens of microseconds, holds the interpreter.
//! I2  No thread that moves bytes waits for the interpreter.
//! I3  Memory that a Python object owns is kept until nothing of the engine uses it (`home.rs`).

mod compat;
mod dispatcher;
mod engine;
mod failure;
mod home;
mod memory;
mod names;
mod numbers;
mod raw;
mod region;
mod segment;
mod transfer;
mod work;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The program `te`; gives its exit code. `program` is what starts it once more.
#[pyfunction]
fn run_program(py: Python<'_>, program: Vec<OsString>, words: Vec<OsString>) -> u8 {
    py.detach(|| te_cli::main(te_cli::Program::new(program), words))
}

/// Closes every engine of this process, within `timeout` seconds.
#[pyfunction]
fn close_all(py: Python<'_>, timeout: f64) -> PyResult<()> {
    home::close_all(py, numbers::seconds(timeout)?);
    Ok(())
}

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<region::Region>()?;
    module.add_class::<segment::Segment>()?;
    module.add_class::<transfer::Transfer>()?;
    module.add_class::<compat::TransferEngine>()?;
    module.add_class::<names::TransferOpcode>()?;
    module.add_class::<names::TransferNotify>()?;
    module.add_class::<names::InnerTransferEngine>()?;
    module.add_function(wrap_pyfunction!(compat::last_error, module)?)?;
    module.add_function(wrap_pyfunction!(close_all, module)?)?;
    module.add_function(wrap_pyfunction!(run_program, module)?)
}
