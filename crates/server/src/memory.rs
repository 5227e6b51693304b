//! The allocator of the program.
//!
//! Bodies are allocated by the threads that serve requests and freed by the one that writes the journal,
//! which is what mimalloc is made for.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// Asks mimalloc in its plain way wherever that will do. To ask it for an alignment, as the wrapper that
/// comes with it does each time, takes longer, and above a kilobyte also more memory.
pub struct Allocator;

/// What every piece is aligned to that is not smaller.
const PLAIN_ALIGN: usize = 16;

fn is_plain(bytes: usize, align: usize) -> bool {
    align <= PLAIN_ALIGN && align <= bytes
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its nature; each call is handed on as it comes"
)]
// SAFETY: mimalloc keeps what the trait asks for, as long as it is told of alignments that it does not
// give by itself.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (bytes, align) = (layout.size(), layout.align());
        match is_plain(bytes, align) {
            true => unsafe { mi::mi_malloc(bytes) }.cast(),
            false => unsafe { mi::mi_malloc_aligned(bytes, align) }.cast(),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (bytes, align) = (layout.size(), layout.align());
        match is_plain(bytes, align) {
            true => unsafe { mi::mi_zalloc(bytes) }.cast(),
            false => unsafe { mi::mi_zalloc_aligned(bytes, align) }.cast(),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, _: Layout) {
        unsafe { mi::mi_free(piece.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match is_plain(bytes, layout.align()) {
            true => unsafe { mi::mi_realloc(piece.cast(), bytes) }.cast(),
            false => unsafe { mi::mi_realloc_aligned(piece.cast(), bytes, layout.align()) }.cast(),
        }
    }
}

/// The option that says after how many milliseconds free memory goes back to the system.
const PURGE_DELAY: mi::mi_option_t = 15;

/// Ten times as long as it would be otherwise. Under load memory comes and goes with every layer of
/// rows and every large body, and what was given back has to be asked for again, and is zeroed.
const PURGE_DELAY_MS: std::ffi::c_long = 10_000;

/// Has free memory stay for a while. What the environment says of it stands.
#[expect(
    unsafe_code,
    reason = "the call takes two numbers, and is made for the start of a program"
)]
pub fn keep() {
    unsafe { mi::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options have numbers, and a new version of the allocator may count them anew.
    #[test]
    #[expect(unsafe_code, reason = "the call takes a number and returns one")]
    fn the_option_is_the_one_that_is_meant() {
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!(unsafe { mi::mi_option_get(PURGE_DELAY) }, 1000);
        }
        keep();
    }

    #[test]
    #[expect(unsafe_code, reason = "it is what an allocator is asked for")]
    fn pieces_are_aligned_zeroed_and_kept_when_they_grow() {
        for bytes in (1..2_000).chain([4_096, 10_000, 70_000, 1 << 20]) {
            for align in [1, 2, 4, 8, 16, 32, 64, 4_096] {
                let layout = Layout::from_size_align(bytes, align).expect("a small power of two");
                let grown = Layout::from_size_align(2 * bytes, align).expect("the same");
                unsafe {
                    let piece = Allocator.alloc_zeroed(layout);
                    assert_eq!(piece.addr() % align, 0, "{layout:?}");
                    assert!(std::slice::from_raw_parts(piece, bytes).iter().all(|byte| *byte == 0));
                    piece.write_bytes(7, bytes);
                    let other = Allocator.alloc(layout);
                    assert_eq!(other.addr() % align, 0, "{layout:?}");
                    other.write_bytes(9, bytes);
                    let piece = Allocator.realloc(piece, layout, 2 * bytes);
                    assert_eq!(piece.addr() % align, 0, "{grown:?}");
                    assert!(std::slice::from_raw_parts(piece, bytes).iter().all(|byte| *byte == 7));
                    Allocator.dealloc(piece, grown);
                    Allocator.dealloc(other, layout);
                }
            }
        }
    }
}
