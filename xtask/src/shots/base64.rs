//! Reading base64, in which the browser sends pictures.

/// The bytes of `text`; nothing if it is no base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for block in text.chunks(4) {
        let bits = block.iter().try_fold(0_u32, |bits, byte| Some(bits << 6 | value(*byte)?))?;
        let bits = bits << (6 * (4 - block.len()));
        let [_, a, b, c] = bits.to_be_bytes();
        // A last block of 2 or 3 letters stands for 1 or 2 bytes.
        out.extend(&[a, b, c][..block.len().checked_sub(1).filter(|n| *n > 0)?]);
    }
    Some(out)
}

fn value(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_length_are_read() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("iVBORw0KGgo=", b"\x89PNG\r\n\x1a\n"),
            ("//+/", b"\xff\xff\xbf"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["Z", "Zm9v!", "Zm9v\n", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
