//! The fence between our own engines: a message of type 0 whose payload asks the peer to end a
//! connection, so that nothing sent on it changes the peer's memory any more.
//!
//! An engine of another kind would take the message for a handshake without queue pairs and refuse
//! it; it is only sent to those that say in their descriptor that they know it.

use serde_json::Value;
use te_metadata::EndpointMessage;

/// What the question's payload says.
pub(crate) const QUESTION: &str = r#"{"te":{"fence":1}}"#;
/// What the answer's payload says.
const CONFIRMED: &str = r#"{"te":{"fenced":1}}"#;

fn says(payload: &str, pointer: &str) -> bool {
    // Most payloads are empty.
    !payload.is_empty()
        && serde_json::from_str::<Value>(payload)
            .is_ok_and(|value| value.pointer(pointer).and_then(Value::as_u64) == Some(1))
}

pub(crate) fn is_question(message: &EndpointMessage) -> bool {
    says(&message.payload, "/te/fence")
}

pub(crate) fn confirmation() -> EndpointMessage {
    EndpointMessage { payload: CONFIRMED.to_owned(), ..EndpointMessage::default() }
}

pub(crate) fn is_confirmed(message: &EndpointMessage) -> bool {
    !message.is_refusal() && says(&message.payload, "/te/fenced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_told_from_a_handshake_by_its_payload() {
        let with = |payload: &str| EndpointMessage {
            payload: payload.to_owned(),
            ..EndpointMessage::default()
        };
        assert!(is_question(&with(QUESTION)) && !is_confirmed(&with(QUESTION)));
        assert!(is_confirmed(&confirmation()) && !is_question(&confirmation()));
        for other in ["", "x", "{}", r#"{"te":{"fence":2}}"#, r#"{"te":[]}"#, "[1]"] {
            assert!(!is_question(&with(other)) && !is_confirmed(&with(other)), "{other}");
        }
        let refused = EndpointMessage { reply_msg: "no".to_owned(), ..confirmation() };
        assert!(!is_confirmed(&refused));
    }
}
