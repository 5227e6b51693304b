//! Memory that the small keys and values of writes share: to ask for some for each of them would cost more
//! than they do.
//!
//! A piece of it is gone when all that lies on it is. So it is for what does not stay: keys and values that
//! are on their way to the disk, and those that decisions look at until they are there.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

/// Bytes of a piece: enough for a dozen writes.
const PIECE_BYTES: usize = 4096;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// What is written, up to so many bytes.
pub(crate) fn keep(bytes: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    ROOM.with_borrow_mut(|room| {
        if bytes > PIECE_BYTES / 4 {
            let mut alone = BytesMut::with_capacity(bytes);
            write(&mut alone);
            return alone.freeze();
        }
        if room.capacity() < bytes {
            *room = BytesMut::with_capacity(PIECE_BYTES);
        }
        write(room);
        room.split().freeze()
    })
}

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;

    use super::*;

    #[test]
    fn what_is_kept_stays_as_it_was() {
        let lengths = [0, 1, 7, 16, 300, PIECE_BYTES / 4, PIECE_BYTES / 4 + 1, 3 * PIECE_BYTES];
        let text = |n: usize| vec![n as u8; lengths[n % lengths.len()]];
        let kept: Vec<Bytes> =
            (0..200).map(|n| keep(text(n).len(), |out| out.put_slice(&text(n)))).collect();
        for (n, kept) in kept.iter().enumerate() {
            assert_eq!(*kept, text(n));
        }
    }
}
