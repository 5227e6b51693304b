//! Memory that has been used before.
//!
//! A virtual machine may get its memory page by page, when it first touches it, and lose again what it
//! has not used for a while. Then a page that a file is written into costs ten times what it costs to
//! copy into it, and whoever writes more pays more for the machine. A server that has run for some time
//! does not know that: files fill the memory, and their pages pass from one to the next.

use std::fs::File;
use std::io::{self, Read};

/// Several times what the fastest writer fills in a round: not all of it comes back first.
const TOUCHED_BYTES: u64 = 4 << 30;

/// Makes sure that there is memory for the files of a round, by a file of nothing that is read and
/// removed.
pub fn touch() -> io::Result<()> {
    let folder = crate::scratch("memory")?;
    let path = folder.path().join("nothing");
    File::create(&path)?.set_len(TOUCHED_BYTES)?;
    let mut file = File::open(&path)?;
    let mut chunk = vec![0; 1 << 20];
    while file.read(&mut chunk)? > 0 {}
    Ok(())
}
