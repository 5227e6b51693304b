//! Cells: the plane cut in four, again and again, so that a box is a few numbers.
//!
//! A cell is the way to it, two bits a step, and then a one: the cells within another are one
//! stretch of numbers around it. A geometry has the rows of at most four cells that cover its
//! box, small for small ones; a search looks at the stretches of the cells that cover its box, and
//! at the cells above those.

use model::json;
use model::policy::SpatialIndex;
use query::function::spatial::bounds;
use query::source::Bounds;
use query::value::Value;

/// Steps to the smallest cell: about a metre on the globe.
const LEVELS: u32 = 25;
/// Cells by which a search covers its box.
const SEARCH_CELLS: usize = 32;

/// What is mapped to cells: all of the globe, or a part of the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
    /// Edges are arcs of the globe.
    pub globe: bool,
}

/// The frame of longitudes and latitudes.
pub(crate) const GLOBE: Frame =
    Frame { west: -180.0, south: -90.0, east: 180.0, north: 90.0, globe: true };

/// A box. On the globe, `west` beyond `east` crosses the date line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
}

impl Frame {
    /// The frame of an index.
    pub fn of(index: &SpatialIndex) -> Self {
        match index.plane {
            None => GLOBE,
            Some([west, south, east, north]) => Self { west, south, east, north, globe: false },
        }
    }

    /// The cells of a GeoJSON geometry; none where it is none.
    pub fn geometry_cells(&self, raw: &[u8]) -> Vec<u64> {
        // Most objects are no geometries, which is cheap to see.
        if json::at_path(raw, &["coordinates"]).is_none() {
            return Vec::new();
        }
        let Some(Bounds { west, south, east, north }) = bounds(&Value::from_raw(raw), !self.globe)
        else {
            return Vec::new();
        };
        self.cover(Area { west, south, east, north }, 4, None)
    }

    /// The stretches of cells that have all geometries which may touch a box, in order.
    pub fn search(&self, area: Area) -> Vec<(u64, u64)> {
        let cells = self.cover(area, SEARCH_CELLS, Some(LEVELS));
        let mut stretches = Vec::new();
        for cell in cells {
            let mut cell = Cell(cell);
            stretches.push(cell.within());
            while let Some(above) = cell.above() {
                stretches.push((above.0, above.0));
                cell = above;
            }
        }
        stretches.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in stretches {
            match joined.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        joined
    }

    /// At most so many cells that cover a box: as small as fit, or refined from the whole.
    fn cover(&self, area: Area, most: usize, refine: Option<u32>) -> Vec<u64> {
        if self.globe && area.west > area.east {
            let (left, right) =
                (Area { east: self.east, ..area }, Area { west: self.west, ..area });
            let half = (most / 2).max(1);
            let mut cells = self.cover(left, half, refine);
            cells.extend(self.cover(right, half, refine));
            cells.sort_unstable();
            cells.dedup();
            return cells;
        }
        let low = (
            self.place(area.west, self.west, self.east),
            self.place(area.south, self.south, self.north),
        );
        let high = (
            self.place(area.east, self.west, self.east),
            self.place(area.north, self.south, self.north),
        );
        match refine {
            None => Cell::around(low, high, most),
            Some(levels) => Cell::refined(low, high, most, levels),
        }
    }

    /// Where a number lies between two, in steps of the smallest cell. What lies outside is at the
    /// border, so nothing is lost.
    fn place(&self, value: f64, from: f64, to: f64) -> u64 {
        let share = ((value - from) / (to - from)).clamp(0.0, 1.0);
        let cells = 1_u64 << LEVELS;
        // Not a number is anywhere; the border is as good as any.
        ((share * cells as f64) as u64).min(cells - 1)
    }
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell(u64);

impl Cell {
    /// The cell that is everything.
    const WHOLE: Self = Self(1 << (2 * LEVELS));

    /// The cell of a level that has a place.
    fn at(x: u64, y: u64, level: u32) -> Self {
        let way = spread(x) << 1 | spread(y);
        let below = 2 * (LEVELS - level);
        // Two bits a step, a one, and nothing behind it.
        Self((way >> below << 1 | 1) << below)
    }

    /// The first and the last cell within it.
    fn within(self) -> (u64, u64) {
        let last_bit = self.0 & self.0.wrapping_neg();
        (self.0 - last_bit + 1, self.0 + last_bit - 1)
    }

    fn above(self) -> Option<Self> {
        let last_bit = self.0 & self.0.wrapping_neg();
        let bit = last_bit << 2;
        (self != Self::WHOLE).then(|| Self((self.0 & !(2 * bit - 1)) | bit))
    }

    /// The smallest cells of one level, at most so many, that cover a box.
    fn around(low: (u64, u64), high: (u64, u64), most: usize) -> Vec<u64> {
        for level in (0..=LEVELS).rev() {
            let shift = LEVELS - level;
            let (columns, rows) = (
                (high.0 >> shift) - (low.0 >> shift) + 1,
                (high.1 >> shift) - (low.1 >> shift) + 1,
            );
            if columns.saturating_mul(rows) <= most as u64 {
                let mut cells = Vec::new();
                for x in low.0 >> shift..=high.0 >> shift {
                    for y in low.1 >> shift..=high.1 >> shift {
                        cells.push(Self::at(x << shift, y << shift, level).0);
                    }
                }
                cells.sort_unstable();
                return cells;
            }
        }
        vec![Self::WHOLE.0]
    }

    /// Cells that cover a box: the whole, with those that are only partly in it cut in four as
    /// long as there are not too many.
    fn refined(low: (u64, u64), high: (u64, u64), most: usize, levels: u32) -> Vec<u64> {
        let mut done: Vec<u64> = Vec::new();
        let mut open = std::collections::VecDeque::from([(0_u64, 0_u64, 0_u32)]);
        while let Some((x, y, level)) = open.pop_front() {
            let size = 1_u64 << (LEVELS - level);
            let apart = x > high.0 || y > high.1 || x + size - 1 < low.0 || y + size - 1 < low.1;
            if apart {
                continue;
            }
            let inside =
                x >= low.0 && y >= low.1 && x + size - 1 <= high.0 && y + size - 1 <= high.1;
            if inside || level == levels || done.len() + open.len() + 4 > most {
                done.push(Self::at(x, y, level).0);
                continue;
            }
            let half = size / 2;
            for (dx, dy) in [(0, 0), (0, half), (half, 0), (half, half)] {
                open.push_back((x + dx, y + dy, level + 1));
            }
        }
        done.sort_unstable();
        done
    }
}

/// Puts a zero between all bits.
fn spread(value: u64) -> u64 {
    let mut spread = value & 0xFFFF_FFFF;
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF_u64),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(geometry: &str, area: Area) -> bool {
        let cells = GLOBE.geometry_cells(geometry.as_bytes());
        let stretches = GLOBE.search(area);
        cells.iter().any(|cell| stretches.iter().any(|(from, to)| (from..=to).contains(&cell)))
    }

    fn area(west: f64, south: f64, east: f64, north: f64) -> Area {
        Area { west, south, east, north }
    }

    #[test]
    fn cells_within_a_cell_are_one_stretch() {
        let cell = Cell::at(1 << 20, 1 << 10, 7);
        let mut inner = Cell::at(1 << 20, 1 << 10, LEVELS);
        let (from, to) = cell.within();
        let mut steps = 0;
        while inner != cell {
            assert!((from..=to).contains(&inner.0));
            inner = inner.above().unwrap();
            steps += 1;
        }
        assert_eq!(steps, LEVELS - 7);
        assert_eq!(Cell::at(0, 0, 0), Cell::WHOLE);
        assert_eq!(Cell::WHOLE.above(), None);
    }

    #[test]
    fn a_point_is_found_by_every_box_around_it() {
        let mut seed = 1_u64;
        let mut number = |from: f64, to: f64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            from + (to - from) * ((seed >> 11) as f64 / (1_u64 << 53) as f64)
        };
        for _ in 0..500 {
            let (x, y) = (number(-180.0, 180.0), number(-90.0, 90.0));
            let (w, h) = (number(0.0, 20.0), number(0.0, 20.0));
            let point = format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#);
            assert!(found(&point, area(x - w, y - h, x + w, y + h)), "{point} {w} {h}");
            assert!(found(&point, area(x, y, x, y)), "{point}");
            let away = area(x + 1.0, y + 1.0, x + 1.5, y + 1.5);
            assert!(x > 178.0 || y > 88.0 || !found(&point, away), "{point}");
        }
    }

    #[test]
    fn lines_and_areas_are_found_where_they_pass() {
        let line = r#"{"type":"LineString","coordinates":[[0,50],[60,50]]}"#;
        assert!(found(line, area(30.0, 49.0, 31.0, 50.0)));
        assert!(found(line, area(30.0, 52.0, 31.0, 53.0)), "the arc passes further north");
        assert!(!found(line, area(-40.0, -52.0, -31.0, -50.0)));
        let wide = r#"{"type":"LineString","coordinates":[[-170,0],[170,0]]}"#;
        assert!(found(wide, area(179.0, 0.0, 180.0, 1.0)), "the shorter way round");
        assert!(!found(wide, area(0.0, 0.0, 1.0, 1.0)));
        let polygon = r#"{"type":"Polygon","coordinates":[[[0,0],[10,0],[10,10],[0,10],[0,0]]]}"#;
        assert!(found(polygon, area(4.0, 4.0, 5.0, 5.0)));
        let across = area(170.0, -5.0, -170.0, 5.0);
        assert!(found(r#"{"type":"Point","coordinates":[175,0]}"#, across));
        assert!(found(r#"{"type":"Point","coordinates":[-175,0]}"#, across));
        assert!(!found(r#"{"type":"Point","coordinates":[0,0]}"#, across));
    }

    #[test]
    fn what_is_no_geometry_has_no_cells() {
        for text in [
            "{}",
            "1",
            r#"{"type":"Point"}"#,
            r#"{"type":"Point","coordinates":["a","b"]}"#,
            r#"{"type":"Circle","coordinates":[1,2]}"#,
            r#"{"type":"Point","coordinates":[1]}"#,
        ] {
            assert!(GLOBE.geometry_cells(text.as_bytes()).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_search_is_a_few_stretches() {
        for area in
            [area(-180.0, -90.0, 180.0, 90.0), area(1.0, 1.0, 1.0, 1.0), area(-1e9, 0.0, 1e9, 1e-9)]
        {
            assert!(GLOBE.search(area).len() <= SEARCH_CELLS * (LEVELS as usize + 1));
        }
        assert_eq!(GLOBE.search(area(-180.0, -90.0, 180.0, 90.0)), [Cell::WHOLE.within()]);
    }
}
