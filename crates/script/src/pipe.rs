//! Frames over a pair of pipes: a length, then as many bytes.
//!
//! Who waits looks a few times before going to sleep. An answer is mostly a few microseconds away,
//! and being woken costs ten times that.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};

use crate::clock::Deadline;

/// No frame is longer. Above all that [`Limits`](crate::Limits) lets into one.
pub(crate) const FRAME_BYTES: usize = 96 * 1024 * 1024;
/// Space is made for what has arrived, not for what was announced.
const STEP_BYTES: usize = 256 * 1024;
const HEADER_BYTES: usize = 4;
/// How long to look before going to sleep, and how often before letting others have the core: the
/// one that is waited for may need it.
const SPIN: Duration = Duration::from_micros(50);
const LOOKS: u32 = 8;

/// Why nothing came, or could be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The time is up.
    Late,
    /// The other side is gone.
    Closed,
    /// The frame is larger than any should be.
    TooLarge,
}

/// Both directions of a conversation.
#[derive(Debug)]
pub(crate) struct Pipe {
    input: OwnedFd,
    output: OwnedFd,
}

impl Pipe {
    /// A conversation over these ends.
    pub(crate) fn new(input: OwnedFd, output: OwnedFd) -> std::io::Result<Self> {
        ioctl_fionbio(&input, true)?;
        ioctl_fionbio(&output, true)?;
        Ok(Self { input, output })
    }

    /// Sends one frame.
    pub(crate) fn send(&self, frame: &[u8], deadline: Option<Deadline>) -> Result<(), Broken> {
        let length = u32::try_from(frame.len()).map_err(|_| Broken::TooLarge)?;
        if frame.len() > FRAME_BYTES {
            return Err(Broken::TooLarge);
        }
        // One write for what is short: the other side then wakes up once.
        let mut first = length.to_le_bytes().to_vec();
        let (head, rest) = frame.split_at(frame.len().min(STEP_BYTES));
        first.extend_from_slice(head);
        self.write_all(&first, deadline)?;
        self.write_all(rest, deadline)
    }

    fn write_all(&self, mut bytes: &[u8], deadline: Option<Deadline>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match write(&self.output, bytes) {
                Ok(0) => return Err(Broken::Closed),
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait(self.output.as_fd(), PollFlags::OUT, deadline)?,
                Err(_) => return Err(Broken::Closed),
            }
        }
        Ok(())
    }

    /// Receives one frame.
    pub(crate) fn receive(&self, deadline: Option<Deadline>) -> Result<Vec<u8>, Broken> {
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header, deadline)?;
        let length = u32::from_le_bytes(header) as usize;
        if length > FRAME_BYTES {
            return Err(Broken::TooLarge);
        }
        let mut frame = Vec::new();
        while frame.len() < length {
            let from = frame.len();
            frame.resize(length.min(from + STEP_BYTES), 0);
            self.fill(&mut frame[from..], deadline)?;
        }
        Ok(frame)
    }

    fn fill(&self, mut space: &mut [u8], deadline: Option<Deadline>) -> Result<(), Broken> {
        let mut patience = None;
        let mut looks = 0;
        while !space.is_empty() {
            match read(&self.input, &mut *space) {
                Ok(0) => return Err(Broken::Closed),
                Ok(count) => {
                    space = &mut space[count..];
                    patience = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if patience.get_or_insert_with(|| Deadline::after(SPIN)).passed() {
                        wait(self.input.as_fd(), PollFlags::IN, deadline)?;
                    }
                    looks += 1;
                    if looks % LOOKS == 0 {
                        std::thread::yield_now();
                    }
                }
                Err(_) => return Err(Broken::Closed),
            }
        }
        Ok(())
    }
}

/// Sleeps until there is something to do. Errors and hang-ups wake, too; the call that follows
/// finds out.
fn wait(end: BorrowedFd<'_>, what: PollFlags, deadline: Option<Deadline>) -> Result<(), Broken> {
    let timeout = deadline.map(|deadline| Timespec::try_from(deadline.left()));
    let timeout = timeout.transpose().map_err(|_| Broken::Late)?;
    match poll(&mut [PollFd::new(&end, what)], timeout.as_ref()) {
        Ok(0) => Err(Broken::Late),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(_) => Err(Broken::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Pipe, Pipe) {
        let (a_in, b_out) = std::io::pipe().unwrap();
        let (b_in, a_out) = std::io::pipe().unwrap();
        let a = Pipe::new(a_in.into(), a_out.into()).unwrap();
        (a, Pipe::new(b_in.into(), b_out.into()).unwrap())
    }

    #[test]
    fn frames_of_all_sizes_arrive() {
        let (a, b) = pair();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while let Ok(frame) = b.receive(None) {
                    if frame.is_empty() || b.send(&frame, None).is_err() {
                        break;
                    }
                }
            });
            for size in [1, 5, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3_000_000] {
                let frame: Vec<u8> = (0..size).map(|i| i as u8).collect();
                a.send(&frame, None).unwrap();
                assert!(a.receive(None).unwrap() == frame, "{size}");
            }
            a.send(&[], None).unwrap();
        });
    }

    #[test]
    fn waiting_ends_at_the_deadline_or_when_the_other_side_goes() {
        let (a, b) = pair();
        let soon = Deadline::after(Duration::from_millis(1));
        assert_eq!(a.receive(Some(soon)), Err(Broken::Late));
        let full = vec![0; 1 << 20];
        assert_eq!(a.send(&full, Some(soon)), Err(Broken::Late));
        drop(b);
        assert_eq!(a.receive(None), Err(Broken::Closed));
    }

    #[test]
    fn a_length_beyond_all_measure_is_refused() {
        let (a, b) = pair();
        b.write_all(&u32::MAX.to_le_bytes(), None).unwrap();
        assert_eq!(a.receive(None), Err(Broken::TooLarge));
    }
}
