//! The two messages on the Unix socket: fixed lengths, little endian, one packet each.
//!
//! ```text
//!   initiator                                   owner
//!     Hello { to, from, challenge } ──────────▶   checks user and incarnation
//!     ◀────────── Welcome { code, incarnation, proof } + [guard table, holds]
//!   reads the challenge at `proof` in the owner's memory, by the owner's process id
//! ```
//!
//! The connection then stays open without a byte: its end says that a side has left.

use te_metadata::Incarnation;

/// First bytes of both messages; the last one is the version.
const MAGIC: [u8; 8] = *b"te-shm\x00\x01";

/// What an initiator says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Who it wants to speak with.
    pub(crate) to: Incarnation,
    /// Who it is.
    pub(crate) from: Incarnation,
    /// What it wants to find in the owner's memory.
    pub(crate) challenge: u128,
}

impl Hello {
    pub(crate) const LEN: usize = 56;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.to.as_u128().to_le_bytes());
        bytes[24..40].copy_from_slice(&self.from.as_u128().to_le_bytes());
        bytes[40..].copy_from_slice(&self.challenge.to_le_bytes());
        bytes
    }

    /// `None` for anything that is no such message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        (bytes[..8] == MAGIC).then(|| Self {
            to: Incarnation::from_u128(wide(bytes, 8)),
            from: Incarnation::from_u128(wide(bytes, 24)),
            challenge: wide(bytes, 40),
        })
    }
}

/// What an owner answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) code: Code,
    /// Who it is.
    pub(crate) incarnation: Incarnation,
    /// Where in its memory the challenge stands, followed by its incarnation.
    pub(crate) proof: u64,
}

/// How an owner answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Come in. Two descriptors come with it: the guard table and the holds of this initiator.
    Welcome,
    /// It is another process than the one asked for.
    OtherProcess,
    /// There are too many already, or no memory for one more.
    Full,
}

impl Code {
    fn number(self) -> u64 {
        match self {
            Self::Welcome => 0,
            Self::OtherProcess => 1,
            Self::Full => 2,
        }
    }
}

impl Welcome {
    pub(crate) const LEN: usize = 40;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.code.number().to_le_bytes());
        bytes[16..32].copy_from_slice(&self.incarnation.as_u128().to_le_bytes());
        bytes[32..].copy_from_slice(&self.proof.to_le_bytes());
        bytes
    }

    /// `None` for anything that is no such message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        if bytes[..8] != MAGIC {
            return None;
        }
        let all = [Code::Welcome, Code::OtherProcess, Code::Full];
        let code = all.into_iter().find(|code| code.number() == word(bytes, 8))?;
        let incarnation = Incarnation::from_u128(wide(bytes, 16));
        Some(Self { code, incarnation, proof: word(bytes, 32) })
    }
}

/// Eight bytes of a message of fixed length; the offsets above are inside.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn wide(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_that_docs_wire_md_draws() {
        let hello = Hello {
            to: Incarnation::from_u128(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100),
            from: Incarnation::from_u128(1),
            challenge: 2,
        };
        let bytes = hello.encode();
        assert_eq!(bytes[..8], *b"te-shm\0\x01");
        assert_eq!(bytes[8..24], std::array::from_fn::<u8, 16, _>(|i| u8::try_from(i).unwrap()));
        assert_eq!((bytes[24], bytes[40]), (1, 2));
        let welcome = Welcome { code: Code::Full, incarnation: hello.to, proof: 0x1234 };
        let bytes = welcome.encode();
        assert_eq!((bytes[8], bytes[16], bytes[17], bytes[32], bytes[33]), (2, 0, 1, 0x34, 0x12));
    }

    proptest! {
        #[test]
        fn messages_survive(to: u128, from: u128, challenge: u128, proof: u64, which in 0..3usize) {
            let (to, from) = (Incarnation::from_u128(to), Incarnation::from_u128(from));
            let hello = Hello { to, from, challenge };
            prop_assert_eq!(Hello::decode(&hello.encode()), Some(hello));
            let code = [Code::Welcome, Code::OtherProcess, Code::Full][which];
            let welcome = Welcome { code, incarnation: to, proof };
            prop_assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
        }

        #[test]
        fn other_bytes_are_no_message(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(Hello::decode(&bytes), None);
            prop_assert_eq!(Welcome::decode(&bytes), None);
        }
    }
}
