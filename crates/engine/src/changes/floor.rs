//! Readers that ask for what is no longer kept: refused, and told where they can go on.

use model::token::Position;
use model::{Error, Fault, Result};

use super::Part;
use super::position::position_at;
use crate::api::ChangesMode;
use crate::history::Floor;
use crate::pieces::Piece;

impl Part {
    /// From where on everything is there that a reader of a mode must get.
    pub(super) fn floor(&self, mode: ChangesMode) -> Floor {
        match mode {
            ChangesMode::Latest { deletes: false } => Floor::default(),
            ChangesMode::Latest { deletes: true } => {
                let own = self.partition.history().deletes;
                self.pieces().fold(own, |floor, piece| floor.highest(piece.deletes))
            }
            ChangesMode::AllVersions => {
                let own = self.partition.history().log;
                self.pieces().fold(own, |floor, piece| floor.highest(piece.log))
            }
        }
    }

    /// Those that have some of its keys.
    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.partition.pieces.iter().filter(|piece| piece.keys.overlaps(&self.keys))
    }
}

/// Refuses to read what is not kept.
pub(super) fn check(mode: ChangesMode, parts: &[Part]) -> Result<()> {
    if mode == (ChangesMode::Latest { deletes: false }) {
        return Ok(());
    }
    for part in parts {
        let history = part.partition.history();
        let kept = match mode {
            ChangesMode::Latest { .. } => history.tombstones,
            ChangesMode::AllVersions => history.logs,
        };
        let floor = part.floor(mode).lsn;
        // Where keeping has just begun, a crash could still take back the commits before.
        if !kept || floor > part.partition.lsn() {
            return Err(Error::bad_request(how_to_keep(mode)));
        }
        if part.safe() < floor {
            return Err(purged(mode, parts));
        }
    }
    Ok(())
}

fn how_to_keep(mode: ChangesMode) -> &'static str {
    match mode {
        ChangesMode::Latest { .. } => {
            "the container does not remember deletes: replace it with \"changeFeedPolicy\": \
             {\"tombstoneDuration\": <minutes>} above 0; deletes are remembered from then on"
        }
        ChangesMode::AllVersions => {
            "the container keeps no versions: to read all versions and deletes, replace it with \
             \"changeFeedPolicy\": {\"retentionDuration\": <minutes>}; versions are kept from \
             then on"
        }
    }
}

/// The refusal of a position below what is kept.
pub(super) fn purged(mode: ChangesMode, parts: &[Part]) -> Error {
    let floors: Vec<Floor> = parts.iter().map(|part| part.floor(mode)).collect();
    let newest = floors.iter().map(|floor| floor.ts_ms).max().unwrap_or(0);
    let pieces = parts.iter().zip(&floors);
    let pieces = pieces.map(|(part, floor)| (part.keys.clone(), part.lsn.max(floor.lsn)));
    let earliest: Position = position_at(pieces.collect());
    Error::new(
        Fault::HistoryPurged,
        format!(
            "changes after this position are no longer kept; the earliest position that misses \
             nothing kept is the etag {earliest}, of {}. What changed before it must be read anew \
             from the items themselves",
            date(newest)
        ),
    )
}

/// A time in UTC, as ISO 8601 writes it.
fn date(ms: u64) -> String {
    let (days, seconds) = (ms / 86_400_000, ms / 1000 % 86_400);
    // Days counted from 1 March of a year 0, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(date(1_709_209_045_006), "2024-02-29T12:17:25.006Z");
        assert_eq!(date(1_735_689_599_999), "2024-12-31T23:59:59.999Z");
    }
}
