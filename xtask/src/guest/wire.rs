//! What guest and host say to each other through one virtio port.
//!
//! A frame is a tag (1 byte), the length of its payload (4 bytes, little-endian) and the payload.
//! Texts in a payload are UTF-8; where a payload has two fields, the first has its length before it.
//!
//! I1  A payload is at most [`MAX_PAYLOAD`] bytes; a longer one is refused before memory is taken.
//! I2  What a program prints and files that come back travel in frames of their own kind, so that no
//!     output can be taken for a result.

use std::io::{Read, Write};

use anyhow::{Context as _, bail, ensure};

/// The most bytes that one frame carries.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// How many bytes of output or of a file are put into one frame.
pub(crate) const CHUNK: usize = 64 << 10;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The guest's first process runs.
    Up,
    /// It begins with this: loading modules, making links.
    Stage(String),
    /// The program begins; what follows is its own time.
    Started,
    /// The guest is alive: its uptime in milliseconds.
    Beat(u64),
    /// Bytes of the program's standard output.
    Stdout(Vec<u8>),
    /// Bytes of the program's standard error.
    Stderr(Vec<u8>),
    /// The program exited with this code.
    Exit(i32),
    /// This signal ended the program.
    Signal(i32),
    /// The program could not be started, for this reason.
    NotStarted(String),
    /// A folder that comes back, relative to the folder of such files.
    Folder(String),
    /// A symbolic link that comes back: its path, and what it points to.
    Link(String, String),
    /// A file that comes back: permission bits and path. Its bytes follow.
    File(u32, String),
    /// Bytes of the file that was named last.
    Bytes(Vec<u8>),
    /// All was said; the host may switch the guest off.
    Done,
    /// Host to guest: end the program, hand back what there is.
    Stop,
}

impl Frame {
    /// Writes the frame.
    ///
    /// # Errors
    ///
    /// Where its payload is too long, and what the writer says.
    pub(crate) fn write(&self, to: &mut impl Write) -> anyhow::Result<()> {
        let (tag, payload) = self.parts();
        ensure!(payload.len() <= MAX_PAYLOAD, "a frame of {} bytes is too long", payload.len());
        let length = u32::try_from(payload.len()).context("a payload's length fits")?;
        let mut bytes = Vec::with_capacity(payload.len() + HEADER);
        bytes.push(tag);
        bytes.extend(length.to_le_bytes());
        bytes.extend(payload);
        // One call: other threads of the guest write to the same port.
        to.write_all(&bytes).context("the port does not take a frame")
    }

    /// Reads one frame; none where the other side has closed the port between two frames.
    ///
    /// # Errors
    ///
    /// What the reader says, an unknown tag, a payload that is too long, cut off or no UTF-8.
    pub(crate) fn read(from: &mut impl Read) -> anyhow::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if from.read(&mut header[..1]).context("the port cannot be read")? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut header[1..]).context("a frame is cut off")?;
        let [tag, length @ ..] = header;
        let length = usize::try_from(u32::from_le_bytes(length)).context("a length fits")?;
        ensure!(length <= MAX_PAYLOAD, "a frame of {length} bytes is too long");
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).context("a frame is cut off")?;
        Self::of(tag, payload).map(Some)
    }

    fn parts(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Up => (b'U', Vec::new()),
            Self::Stage(name) => (b'T', name.clone().into()),
            Self::Started => (b'P', Vec::new()),
            Self::Beat(uptime) => (b'B', uptime.to_le_bytes().into()),
            Self::Stdout(bytes) => (b'1', bytes.clone()),
            Self::Stderr(bytes) => (b'2', bytes.clone()),
            Self::Exit(code) => (b'E', code.to_le_bytes().into()),
            Self::Signal(number) => (b'G', number.to_le_bytes().into()),
            Self::NotStarted(why) => (b'N', why.clone().into()),
            Self::Folder(path) => (b'D', path.clone().into()),
            Self::Link(path, target) => (b'L', two(path, target.as_bytes())),
            Self::File(mode, path) => (b'F', [&mode.to_le_bytes(), path.as_bytes()].concat()),
            Self::Bytes(bytes) => (b'Y', bytes.clone()),
            Self::Done => (b'Z', Vec::new()),
            Self::Stop => (b'S', Vec::new()),
        }
    }

    fn of(tag: u8, payload: Vec<u8>) -> anyhow::Result<Self> {
        Ok(match tag {
            b'U' => Self::Up,
            b'T' => Self::Stage(text(payload)?),
            b'P' => Self::Started,
            b'B' => Self::Beat(u64::from_le_bytes(number(&payload)?)),
            b'1' => Self::Stdout(payload),
            b'2' => Self::Stderr(payload),
            b'E' => Self::Exit(i32::from_le_bytes(number(&payload)?)),
            b'G' => Self::Signal(i32::from_le_bytes(number(&payload)?)),
            b'N' => Self::NotStarted(text(payload)?),
            b'D' => Self::Folder(text(payload)?),
            b'L' => {
                let (path, target) = split(&payload)?;
                Self::Link(text(path.to_vec())?, text(target.to_vec())?)
            }
            b'F' => {
                let (mode, path) = payload.split_at_checked(4).context("a file without mode")?;
                Self::File(u32::from_le_bytes(number(mode)?), text(path.to_vec())?)
            }
            b'Y' => Self::Bytes(payload),
            b'Z' => Self::Done,
            b'S' => Self::Stop,
            _ => bail!("a frame of an unknown kind, {tag:#04x}"),
        })
    }
}

/// Tag and length.
const HEADER: usize = 5;

fn two(first: &str, second: &[u8]) -> Vec<u8> {
    let length = u32::try_from(first.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length, first.as_bytes(), second].concat()
}

fn split(payload: &[u8]) -> anyhow::Result<(&[u8], &[u8])> {
    let (length, rest) = payload.split_at_checked(4).context("a field without its length")?;
    let length = usize::try_from(u32::from_le_bytes(number(length)?)).context("a length fits")?;
    rest.split_at_checked(length).context("a field is longer than its frame")
}

fn text(payload: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(payload).context("a text is not UTF-8")
}

fn number<const N: usize>(payload: &[u8]) -> anyhow::Result<[u8; N]> {
    payload.try_into().ok().with_context(|| format!("a number of {} bytes", payload.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        vec![
            Frame::Up,
            Frame::Stage("modules".into()),
            Frame::Started,
            Frame::Beat(1234),
            Frame::Stdout(b"a\xff\0".into()),
            Frame::Stderr(Vec::new()),
            Frame::Exit(3),
            Frame::Signal(9),
            Frame::NotStarted("no such program".into()),
            Frame::Folder("a/b".into()),
            Frame::Link("a/l".into(), "../x".into()),
            Frame::File(0o755, "a/f".into()),
            Frame::Bytes(vec![7; CHUNK]),
            Frame::Done,
            Frame::Stop,
        ]
    }

    fn written(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes).unwrap());
        bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = written(&all());
        let mut rest = bytes.as_slice();
        for frame in all() {
            assert_eq!(Frame::read(&mut rest).unwrap(), Some(frame));
        }
        assert_eq!(Frame::read(&mut rest).unwrap(), None);
    }

    #[test]
    fn a_frame_that_is_cut_off_anywhere_is_an_error() {
        for frame in all() {
            let bytes = written(&[frame]);
            for end in 1..bytes.len().min(64) {
                assert!(Frame::read(&mut &bytes[..end]).is_err(), "{end} of {bytes:?}");
            }
        }
    }

    #[test]
    fn no_memory_is_taken_for_a_length_that_is_too_long() {
        let mut bytes = vec![b'1'];
        bytes.extend(u32::MAX.to_le_bytes());
        let error = Frame::read(&mut bytes.as_slice()).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
        assert!(Frame::Stdout(vec![0; MAX_PAYLOAD + 1]).write(&mut Vec::new()).is_err());
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        for tag in 0..=u8::MAX {
            for payload in [&b""[..], b"\xff", b"\xff\xff\xff\xff", b"\x09\0\0\0abc", &[0x80; 9]] {
                let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
                let bytes = [&[tag], &length[..], payload].concat();
                // Either answer is right; only the way there is looked at.
                let _ = Frame::read(&mut bytes.as_slice());
            }
        }
    }
}
