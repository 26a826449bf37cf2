//! Eight devices, each with a link of its own: the first four are ours, the others the peer's.

#[path = "star/answers.rs"]
mod answers;
#[path = "star/conformance.rs"]
mod conformance;
#[path = "star/engines.rs"]
mod engines;
#[path = "star/faults.rs"]
mod faults;
#[path = "star/moves.rs"]
mod moves;
#[path = "star/program.rs"]
mod program;
#[path = "star/questions.rs"]
mod questions;
#[path = "star/scene.rs"]
mod scene;
#[path = "star/script.rs"]
mod script;
