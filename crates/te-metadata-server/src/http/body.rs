//! Receiving a body within its limits of size, time and memory.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::http::reply::Failure;
use crate::http::{Pending, Shared};

/// A whole body, and the room that it takes from others.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) bytes: Bytes,
    _room: Option<SemaphorePermit<'a>>,
}

/// Takes all of `body`, at most `limit` bytes.
pub(crate) async fn receive<'a>(
    shared: &'a Shared,
    body: &mut Pending,
    limit: usize,
) -> Result<Received<'a>, Failure> {
    let mut body = body.take().ok_or(Failure::Broken)?;
    let deadline = later(shared.limits.body_timeout);
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut room: Option<SemaphorePermit<'a>> = None;
    let mut whole = BytesMut::with_capacity(announced.min(FIRST));
    if announced > limit {
        drain(body).await;
        return Err(Failure::TooLarge(limit));
    }
    while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| Failure::Slow)? {
        let Ok(data) = frame.map_err(|_| Failure::Broken)?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            drain(body).await;
            return Err(Failure::TooLarge(limit));
        }
        if let Err(failure) = take_room(shared, &mut room, data.len()) {
            drain(body).await;
            return Err(failure);
        }
        whole.extend_from_slice(&data);
    }
    Ok(Received { bytes: whole.freeze(), _room: room })
}

fn take_room<'a>(
    shared: &'a Shared,
    room: &mut Option<SemaphorePermit<'a>>,
    n: usize,
) -> Result<(), Failure> {
    let n = u32::try_from(n).map_err(|_| Failure::Overloaded("bytes at once"))?;
    let more = shared.body_room.try_acquire_many(n);
    let more = more.map_err(|_| Failure::Overloaded("bytes at once"))?;
    match room {
        Some(room) => room.merge(more),
        None => *room = Some(more),
    }
    Ok(())
}

/// Reads on for a moment: a client that is still sending when the connection closes sees a reset
/// in the place of the answer that tells it why.
pub(crate) async fn drain(mut body: Incoming) {
    let deadline = later(DRAIN_TIME);
    let mut n = 0;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        n += frame.data_ref().map_or(0, Bytes::len);
        if n > DRAIN_BYTES {
            return;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the deadline of a timer of the runtime")]
fn later(time: Duration) -> Instant {
    Instant::from_std(std::time::Instant::now() + time)
}

const DRAIN_TIME: Duration = Duration::from_secs(2);
const DRAIN_BYTES: usize = 64 << 20;

/// What is set aside before the first byte has come, whatever was announced.
const FIRST: usize = 64 << 10;
