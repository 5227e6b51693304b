//! From GeoJSON to positions, and why not.

use model::Result;

use crate::value::{Type, Value};
use crate::world::Budget;

/// Longitude and latitude in degrees, or x and y.
pub(super) type Position = [f64; 2];

/// A geometry whose form is sound.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Point(Position),
    /// At least two positions.
    Line(Vec<Position>),
    /// Polygons as rings: the outer one, then holes.
    Areas(Vec<Vec<Ring>>),
}

/// A closed line: at least three positions, the first not repeated at the end.
pub(super) type Ring = Vec<Position>;

/// Why something is no geometry.
pub(super) type Reason = &'static str;

type Read<T> = Result<std::result::Result<T, Reason>>;

/// Leaves with the reason where there is one.
macro_rules! sound {
    ($read:expr) => {
        match $read {
            Ok(value) => value,
            Err(reason) => return Ok(Err(reason)),
        }
    };
}

impl Shape {
    /// The geometry that a value describes.
    pub(super) fn read(budget: &Budget, value: &Value<'_>, planar: bool) -> Read<Self> {
        if value.kind() != Type::Object {
            return Ok(Err("A geometry must be an object with a type and coordinates."));
        }
        if !planar && !is_wgs84(&value.member("crs")) {
            return Ok(Err("The coordinate reference system must be WGS-84."));
        }
        let coordinates = value.member("coordinates");
        let reader = Reader { budget, planar };
        match value.member("type").as_str() {
            Some("Point") => Ok(reader.position(&coordinates)?.map(Self::Point)),
            Some("LineString") => {
                let line = sound!(reader.positions(&coordinates)?);
                if line.len() < 2 {
                    return Ok(Err("A LineString must have at least two positions."));
                }
                Ok(Ok(Self::Line(line)))
            }
            Some("Polygon") => {
                Ok(reader.polygon(&coordinates)?.map(|polygon| Self::Areas(vec![polygon])))
            }
            Some("MultiPolygon") => {
                let Some(polygons) = coordinates.elements() else {
                    return Ok(Err("The coordinates of a MultiPolygon must be an array."));
                };
                let mut areas = Vec::new();
                for polygon in polygons {
                    areas.push(sound!(reader.polygon(&polygon)?));
                }
                if areas.is_empty() {
                    return Ok(Err("A MultiPolygon must have at least one polygon."));
                }
                Ok(Ok(Self::Areas(areas)))
            }
            _ => Ok(Err("The type must be Point, LineString, Polygon or MultiPolygon.")),
        }
    }
}

struct Reader<'b> {
    budget: &'b Budget,
    planar: bool,
}

impl Reader<'_> {
    fn position(&self, value: &Value<'_>) -> Read<Position> {
        const REASON: Reason = "A position must be an array of at least two numbers.";
        self.budget.spend(1)?;
        let Some(mut numbers) = value.elements() else { return Ok(Err(REASON)) };
        let mut next = || numbers.next().and_then(|number| number.as_f64());
        let (Some(x), Some(y)) = (next(), next()) else { return Ok(Err(REASON)) };
        if !(x.is_finite() && y.is_finite()) {
            return Ok(Err(REASON));
        }
        if self.planar {
            return Ok(Ok([x, y]));
        }
        if !(-90.0..=90.0).contains(&y) {
            return Ok(Err("Latitude values must be between -90 and 90 degrees."));
        }
        if !(-180.0..=180.0).contains(&x) {
            return Ok(Err("Longitude values must be between -180 and 180 degrees."));
        }
        Ok(Ok([x, y]))
    }

    fn positions(&self, value: &Value<'_>) -> Read<Vec<Position>> {
        let Some(elements) = value.elements() else {
            return Ok(Err("Coordinates must be an array of positions."));
        };
        let mut positions = Vec::new();
        for element in elements {
            positions.push(sound!(self.position(&element)?));
        }
        Ok(Ok(positions))
    }

    fn polygon(&self, value: &Value<'_>) -> Read<Vec<Ring>> {
        let Some(elements) = value.elements() else {
            return Ok(Err("The coordinates of a polygon must be an array of rings."));
        };
        let mut rings = Vec::new();
        for element in elements {
            let mut ring = sound!(self.positions(&element)?);
            if ring.len() < 4 {
                return Ok(Err("A ring of a polygon must have at least four positions."));
            }
            if ring.first() != ring.last() {
                return Ok(Err("A ring of a polygon must end where it starts."));
            }
            ring.dedup();
            ring.pop();
            if ring.len() < 3 {
                return Ok(Err("A ring of a polygon must have three different positions."));
            }
            rings.push(ring);
        }
        if rings.is_empty() {
            return Ok(Err("A polygon must have at least one ring."));
        }
        Ok(Ok(rings))
    }
}

/// No system named is WGS-84 too.
fn is_wgs84(crs: &Value<'_>) -> bool {
    match crs {
        Value::Undefined | Value::Null => true,
        crs => {
            let name = crs.member("properties").member("name");
            name.as_str().is_some_and(|name| name.ends_with("CRS84") || name.ends_with("4326"))
        }
    }
}
