//! Version 3 by hand, independent of the crate's own codec.

/// CRC32C, one bit at a time.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

fn sealed(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes.resize(len - 4, 0);
    let crc = crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// A hello to a target of this incarnation.
pub fn hello(to: u128, session: u64, connection: u32, fence: u32) -> Vec<u8> {
    let mut bytes = vec![128, 0, 0, 0, b'T', b'E', b'3', 0xfe];
    bytes.extend([0xff; 8]);
    bytes.extend([0x80, 3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0]);
    bytes.extend(7u128.to_le_bytes());
    bytes.extend(to.to_le_bytes());
    bytes.extend(session.to_le_bytes());
    bytes.extend(connection.to_le_bytes());
    bytes.extend(fence.to_le_bytes());
    sealed(bytes, 128)
}

/// An answer.
pub fn answer(target: u128, code: u16, credit: u32, fenced: u32) -> Vec<u8> {
    let mut bytes = b"TE3A\x03\x00".to_vec();
    bytes.extend(code.to_le_bytes());
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(credit.to_le_bytes());
    bytes.extend(target.to_le_bytes());
    bytes.extend(fenced.to_le_bytes());
    sealed(bytes, 64)
}

pub fn frame(kind: u8, flags: u8, id: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = head(kind, flags, u32::try_from(body.len()).unwrap(), id);
    bytes.extend(body);
    bytes
}

pub fn head(kind: u8, flags: u8, len: u32, id: u64) -> Vec<u8> {
    let mut bytes = vec![kind, flags, 0, 0];
    bytes.extend(len.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes
}

/// A request: `op` 0 is a read, 1 a write.
pub fn request(id: u64, op: u8, (slot, generation): (u32, u32), offset: u64, len: u64) -> Vec<u8> {
    let mut body = vec![op, 0, 0, 0, 0, 0, 0, 0];
    body.extend(slot.to_le_bytes());
    body.extend(generation.to_le_bytes());
    body.extend(offset.to_le_bytes());
    body.extend(len.to_le_bytes());
    body.extend([0; 8]);
    frame(1, 0, id, &body)
}

/// A status without a sum.
pub fn status(id: u64, code: u16) -> Vec<u8> {
    let mut body = code.to_le_bytes().to_vec();
    body.resize(24, 0);
    frame(16, 0, id, &body)
}
