//! Memory for rows, in pieces that many of them share.
//!
//! Rows are small and many, and live and die with their layer: to ask for memory for each of them, and
//! to give it back, would cost more than to copy them. A piece is free once all that was put into it is.

use bytes::{Bytes, BytesMut};

/// What one piece holds, about as much as a block of the tree. What is larger has its own.
const PIECE_BYTES: usize = 16 << 10;
const ALONE_BYTES: usize = PIECE_BYTES / 8;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    room: BytesMut,
}

impl Shelf {
    /// A copy of what is given, one behind the other.
    pub(crate) fn put(&mut self, parts: [&[u8]; 2]) -> Bytes {
        let bytes = parts[0].len() + parts[1].len();
        if bytes > ALONE_BYTES {
            return Bytes::from(parts.concat());
        }
        if self.room.capacity() < bytes {
            self.room = BytesMut::with_capacity(PIECE_BYTES);
        }
        parts.iter().for_each(|part| self.room.extend_from_slice(part));
        self.room.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_stays_as_it_is() {
        let mut shelf = Shelf::default();
        let text = |n: usize| vec![n as u8; n * 7 % (2 * ALONE_BYTES)];
        let kept: Vec<Bytes> = (0..1_000).map(|n| shelf.put([b"key ", &text(n)])).collect();
        for (n, kept) in kept.iter().enumerate() {
            assert_eq!(kept[..], [&b"key "[..], &text(n)].concat());
        }
    }
}
