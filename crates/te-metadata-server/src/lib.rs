//! A metadata server for transfer engines.
mod catalog;
mod clock;
mod counters;
mod error;
mod keeper;
mod limits;
mod moment;
mod rate;
mod storage;
mod summary;
mod token;
mod watchers;

pub use error::{StartError, TokenError};
pub use limits::Limits;
pub use storage::StorageError;
pub use token::Token;
