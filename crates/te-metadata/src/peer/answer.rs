//! From a question to its answer.
//!
//! A question of the wrong shape is answered where its format has a way to say no: an endpoint
//! handshake by its `reply_msg`, a notification by an empty `notify_msg`, beside which one of our
//! own senders finds that there was no room. A probe or an exchange
//! of descriptors whose text is no JSON cannot be refused in words; the connection just closes.
//! Their content does not matter otherwise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::de::IgnoredAny;
use thiserror::Error;

use super::question::{Desk, Ticket};
use super::{Asker, NotifyRefused, PeerService};
use crate::frame::{Frame, FrameKind, FrameType, encode_frame};
use crate::message::{NotifyAnswer, line};
use crate::{ChunkDigest, EndpointMessage, FrameError, MessageError, Notify};

/// What is sent back, and what was wrong with the question.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) fault: Option<QuestionFault>,
}

/// Why a question was not answered as asked.
#[derive(Debug, Error)]
pub(super) enum QuestionFault {
    #[error("the bytes are no frame")]
    Frame(#[from] FrameError),
    #[error("the text is wrong")]
    Message(#[from] MessageError),
    #[error("the service panicked")]
    ServicePanicked,
}

/// Answers a whole frame; `None` where the answer will come through the desk.
pub(super) fn answer(
    service: &dyn PeerService,
    frame: &Frame,
    (desk, ticket): (&Arc<Desk>, Ticket),
) -> Option<Answer> {
    let (body, fault) = match frame.kind {
        FrameKind::Legacy | FrameKind::Typed(FrameType::Endpoint) => {
            match ask_endpoint(service, &frame.body, desk, ticket) {
                Ok(()) => return None,
                Err(Refusal { reason, fault }) => {
                    (Some(EndpointMessage::refusal(reason).encode()), fault)
                }
            }
        }
        FrameKind::Typed(FrameType::Metadata) => {
            ignoring_content(&frame.body, || descriptor(service, &frame.body))
        }
        FrameKind::Typed(FrameType::Notify) => notify(service, &frame.body),
        FrameKind::Typed(FrameType::Probe) => {
            ignoring_content(&frame.body, || Ok(b"{\"status\":\"success\"}\n".to_vec()))
        }
    };
    Some(Answer { bytes: body.map(|body| encode_frame(frame.kind, &body)), fault })
}

type BodyAndFault = (Option<Vec<u8>>, Option<QuestionFault>);

/// A handshake that is refused before its service could answer.
struct Refusal {
    reason: String,
    fault: Option<QuestionFault>,
}

fn ask_endpoint(
    service: &dyn PeerService,
    body: &[u8],
    desk: &Arc<Desk>,
    ticket: Ticket,
) -> Result<(), Refusal> {
    let request = EndpointMessage::decode(body).map_err(|error| Refusal {
        reason: format!("malformed handshake: {error}"),
        fault: Some(error.into()),
    })?;
    let question = desk.open(ticket, request).ok_or_else(|| Refusal {
        reason: "too many handshakes wait for their answers".to_owned(),
        fault: None,
    })?;
    guarded(|| service.endpoint(question))
        .map_err(|fault| Refusal { reason: "internal error".to_owned(), fault: Some(fault) })
}

fn notify(service: &dyn PeerService, body: &[u8]) -> BodyAndFault {
    let taken = Notify::decode(body).map_err(QuestionFault::from);
    let (answer, fault) = match taken.and_then(|notify| guarded(|| service.notify(notify))) {
        Ok(Ok(())) => (NotifyAnswer::Taken, None),
        Ok(Err(refused)) => {
            tracing::debug!(%refused, "notification refused");
            match refused {
                NotifyRefused::Full { waiting } => (NotifyAnswer::Full { waiting }, None),
                NotifyRefused::Other { .. } => (NotifyAnswer::Refused, None),
            }
        }
        Err(fault) => (NotifyAnswer::Refused, Some(fault)),
    };
    (Some(answer.encode()), fault)
}

fn descriptor(service: &dyn PeerService, question: &[u8]) -> Result<Vec<u8>, QuestionFault> {
    let nothing = || b"null".to_vec();
    match ChunkDigest::asked_for(question) {
        // Its bytes have a digest, which a byte more would change.
        Some(digest) => Ok(guarded(|| service.chunk(digest))?.unwrap_or_else(nothing)),
        None => {
            let told = guarded(|| service.descriptor(&Asker::read(question)))?;
            Ok(line(told.unwrap_or_else(nothing)))
        }
    }
}

/// The answer to a question whose text need only be JSON.
fn ignoring_content(
    body: &[u8],
    reply: impl FnOnce() -> Result<Vec<u8>, QuestionFault>,
) -> BodyAndFault {
    let parsed = serde_json::from_slice::<IgnoredAny>(body).map_err(MessageError::Json);
    match parsed.map_err(QuestionFault::from).and_then(|_| reply()) {
        Ok(body) => (Some(body), None),
        Err(fault) => (None, Some(fault)),
    }
}

/// Keeps a panic of the service from ending the server's thread.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, QuestionFault> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| QuestionFault::ServicePanicked)
}
