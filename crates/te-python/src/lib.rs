//! The extension module `te_engine._native`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// The program `te`; gives its exit code. `program` is what starts it once more.
#[pyfunction]
fn run_program(py: Python<'_>, program: Vec<OsString>, words: Vec<OsString>) -> u8 {
    py.detach(|| te_cli::main(te_cli::Program::new(program), words))
}

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(run_program, module)?)
}
