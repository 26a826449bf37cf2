//! What proves a transport: the simulator, the fault injector and the conformance suite.

mod clock;
pub mod conformance;
mod faulty;
mod recorder;
mod seeded;
mod sim;

pub use clock::VirtualClock;
pub use faulty::{FaultyTransport, Twist};
pub use recorder::{Miscount, Recorder};
pub use seeded::Seeded;
pub use sim::{SimBuilder, SimFabric, SimTransport};
