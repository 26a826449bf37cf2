//! Sessions with a guest that is a thread: what is made of its frames, and of its silence.

use super::*;

/// What a session makes of these frames and this console, with a child that stands for qemu.
fn end_after(frames: &[Frame], console: &str, limits: Limits) -> (End, Vec<u8>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    for frame in frames {
        frame.write(&mut theirs).unwrap();
    }
    drop(theirs);
    let mut printed = Vec::new();
    let mut take = |_: Stream, bytes: &[u8]| printed.extend_from_slice(bytes);
    let mut child = Command::new("true").spawn().unwrap();
    let mut session = Session {
        port: ours.try_clone().unwrap(),
        frames: read_frames(ours),
        looker: Looker::new(child.id()),
        budget: Budget::new(limits),
        returned: None,
        said: None,
        limit: None,
        boot: None,
        is_up: false,
        take: &mut take,
    };
    session.follow(&mut child).unwrap();
    let end = session.end(console, || "qemu: exit".to_owned());
    (end, printed)
}

#[test]
fn output_that_looks_like_a_result_is_output() {
    let line = b"E\x04\0\0\0\0\0\0\0".to_vec();
    let frames =
        [Frame::Up, Frame::Started, Frame::Stdout(line.clone()), Frame::Exit(3), Frame::Done];
    let (end, printed) = end_after(&frames, "", Limits::default());
    assert_eq!((end, printed), (End::Exit(3), line));
}

#[test]
fn a_guest_that_is_gone_is_told_by_its_console() {
    let frames = [Frame::Up, Frame::Started];
    let (end, _) = end_after(&frames, "[1.0] Kernel panic - not syncing: x\n", Limits::default());
    assert_eq!(end, End::Panic("Kernel panic - not syncing: x".to_owned()));
    let (end, _) = end_after(&frames, "", Limits::default());
    assert!(matches!(end, End::Lost(_)), "{end:?}");
}

#[test]
fn output_ends_at_its_limit() {
    let limits = Limits { output: 4, ..Limits::default() };
    let frames = [Frame::Stdout(b"1234".to_vec()), Frame::Stdout(b"5".to_vec()), Frame::Done];
    let (end, printed) = end_after(&frames, "", limits);
    assert_eq!(
        (end, printed.as_slice()),
        (End::Limit("its output is too long".into()), &b"1234"[..])
    );
}

#[test]
fn a_guest_that_gives_orders_is_an_error() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    Frame::Stop.write(&mut theirs).unwrap();
    drop(theirs);
    let frames = read_frames(ours.try_clone().unwrap());
    let mut child = Command::new("true").spawn().unwrap();
    let mut session = Session {
        frames,
        port: ours,
        looker: Looker::new(child.id()),
        budget: Budget::new(Limits::default()),
        returned: None,
        said: None,
        limit: None,
        boot: None,
        is_up: false,
        take: &mut |_, _| (),
    };
    assert!(session.follow(&mut child).is_err());
    child.wait().unwrap();
}
