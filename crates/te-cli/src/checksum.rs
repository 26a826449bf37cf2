//! CRC-32 as gzip and zip use it, so that other tools can check a sum.

/// A running sum over bytes in order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Crc32(crc32fast::Hasher);

impl Crc32 {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_crc_of_gzip() {
        let mut sum = Crc32::default();
        sum.update(b"1234");
        sum.update(b"56789");
        assert_eq!(sum.value(), 0xcbf4_3926);
    }
}
