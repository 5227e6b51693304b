//! From where on history is kept for the keys of partitions that were merged.
//!
//! Each of them had floors of its own, at LSNs that say nothing about the others: were the highest
//! the floor of all, a merge would turn away readers of the quieter ones who have missed nothing.
//! So the merged partition has the lowest as its floor, and remembers the others by their keys.
//!
//! ```text
//! for each: min (u16 length) · max (u16 length) · log lsn u64, ts_ms u64 · deletes lsn u64, ts_ms u64
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use model::Result;
use model::epk::{Epk, EpkRange};

use crate::history::{Floor, History};
use crate::keys::{self, Reader};

/// The keys of a partition that was merged, and its floors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub keys: EpkRange,
    /// Of the log.
    pub log: Floor,
    /// Of what deleted items leave behind.
    pub deletes: Floor,
}

impl Piece {
    /// The pieces of a partition that is to be merged with others, or split: those it came from
    /// itself, or all of it.
    pub fn of(span: &EpkRange, pieces: &[Self], history: &History) -> Vec<Self> {
        let whole = Self { keys: span.clone(), log: history.log, deletes: history.deletes };
        let raised = |piece: &Self| Self {
            keys: piece.keys.clone(),
            log: piece.log.highest(whole.log),
            deletes: piece.deletes.highest(whole.deletes),
        };
        if pieces.is_empty() { vec![whole] } else { pieces.iter().map(raised).collect() }
    }

    /// What of some pieces lies in a span. Those that are alike are one.
    pub fn within(pieces: &[Self], span: &EpkRange) -> Vec<Self> {
        let mut kept: Vec<Self> = Vec::new();
        for piece in pieces {
            let Some(keys) = piece.keys.intersect(span) else { continue };
            match kept.last_mut() {
                Some(last) if (last.log, last.deletes) == (piece.log, piece.deletes) => {
                    last.keys.max = keys.max;
                }
                _ => kept.push(Self { keys, ..piece.clone() }),
            }
        }
        kept
    }

    /// The stored form of pieces.
    pub fn encode(pieces: &[Self]) -> Bytes {
        let mut out = BytesMut::new();
        for Self { keys, log, deletes } in pieces {
            for bound in [&keys.min, &keys.max] {
                let bytes = bound.as_bytes();
                out.put_u16(u16::try_from(bytes.len()).expect("a hash is short"));
                out.put_slice(bytes);
            }
            for number in [log.lsn, log.ts_ms, deletes.lsn, deletes.ts_ms] {
                out.put_u64(number);
            }
        }
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader { rest: stored };
        let mut pieces = Vec::new();
        while !reader.rest.is_empty() {
            let piece = Self::read(&mut reader);
            pieces.push(piece.ok_or_else(|| keys::corrupt("the floors of merged partitions"))?);
        }
        Ok(pieces)
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut bound = || {
            let length = usize::from(u16::from_be_bytes(reader.take()?));
            reader.slice(length).map(Epk::from_bytes)
        };
        let keys = EpkRange::new(bound()?, bound()?);
        let mut floor = || {
            let lsn = u64::from_be_bytes(reader.take()?);
            Some(Floor { lsn, ts_ms: u64::from_be_bytes(reader.take()?) })
        };
        Some(Self { keys, log: floor()?, deletes: floor()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(min: u8, max: u8, lsn: u64) -> Piece {
        let keys = EpkRange::new(Epk::from_bytes(&[min; 16]), Epk::from_bytes(&[max; 16]));
        let floor = Floor { lsn, ts_ms: 10 * lsn };
        Piece { keys, log: floor, deletes: floor }
    }

    #[test]
    fn pieces_come_back_as_they_were() {
        let pieces = [piece(0, 3, 7), piece(3, 9, 1)];
        let stored = Piece::encode(&pieces);
        assert_eq!(Piece::decode(&stored).unwrap(), pieces);
        for length in 1..stored.len() {
            let whole = length == stored.len() / 2;
            assert_eq!(Piece::decode(&stored[..length]).is_ok(), whole, "{length}");
        }
    }

    #[test]
    fn what_is_alike_needs_no_telling_apart() {
        let pieces = [piece(0, 3, 7), piece(3, 5, 7), piece(5, 9, 1)];
        let all = EpkRange::full();
        assert_eq!(Piece::within(&pieces, &all), [piece(0, 5, 7), piece(5, 9, 1)]);
        assert_eq!(Piece::within(&pieces, &piece(1, 4, 0).keys), [piece(1, 4, 7)]);
        assert_eq!(Piece::within(&pieces, &piece(4, 6, 0).keys).len(), 2);
    }

    #[test]
    fn floors_of_pieces_rise_with_that_of_all() {
        let floor = Floor { lsn: 5, ts_ms: 50 };
        let history = History { log: floor, deletes: Floor::default(), ..History::default() };
        let span = EpkRange::full();
        let of = Piece::of(&span, &[piece(0, 3, 7), piece(3, 9, 1)], &history);
        assert_eq!([of[0].log.lsn, of[1].log.lsn], [7, 5]);
        assert_eq!([of[0].deletes.lsn, of[1].deletes.lsn], [7, 1]);
        assert_eq!(Piece::of(&span, &[], &history)[0].keys, span);
    }
}
