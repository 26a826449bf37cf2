//! placeholder
use crate::commands::{Node, Refusal, text};
use serde_json::Value;
#[derive(Debug)]
pub(crate) struct Chaos;
impl Node {
    pub(crate) fn dispatch_chaos(&mut self, c: &Value) -> Result<Value, Refusal> {
        Err((-1, format!("no command {}", text(c, "op")?)))
    }
}
