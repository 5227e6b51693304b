//! From GeoJSON to positions, and why not.

use model::{Error, Result};

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

/// Why reading stopped.
enum Stop {
    Unsound(Reason),
    Limit(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Limit(error)
    }
}

type Read<T> = std::result::Result<T, Stop>;

impl Shape {
    /// The geometry that a value describes, or why it is none.
    pub(super) fn read(
        budget: &Budget,
        value: &Value<'_>,
        planar: bool,
    ) -> Result<std::result::Result<Self, Reason>> {
        match (Reader { budget, planar }).shape(value) {
            Ok(shape) => Ok(Ok(shape)),
            Err(Stop::Unsound(reason)) => Ok(Err(reason)),
            Err(Stop::Limit(error)) => Err(error),
        }
    }
}

struct Reader<'b> {
    budget: &'b Budget,
    planar: bool,
}

impl Reader<'_> {
    fn shape(&self, value: &Value<'_>) -> Read<Shape> {
        if value.kind() != Type::Object {
            return unsound("A geometry must be an object with a type and coordinates.");
        }
        if !self.planar && !is_wgs84(&value.member("crs")) {
            return unsound("The coordinate reference system must be WGS-84.");
        }
        let coordinates = value.member("coordinates");
        match value.member("type").as_str() {
            Some("Point") => self.position(&coordinates).map(Shape::Point),
            Some("LineString") => {
                let line = self.positions(&coordinates)?;
                if line.len() < 2 {
                    return unsound("A LineString must have at least two positions.");
                }
                Ok(Shape::Line(line))
            }
            Some("Polygon") => Ok(Shape::Areas(vec![self.polygon(&coordinates)?])),
            Some("MultiPolygon") => self.polygons(&coordinates).map(Shape::Areas),
            _ => unsound("The type must be Point, LineString, Polygon or MultiPolygon."),
        }
    }

    fn position(&self, value: &Value<'_>) -> Read<Position> {
        self.budget.spend(1)?;
        let mut numbers = value.elements().into_iter().flatten();
        let mut next = || numbers.next().and_then(|number| number.as_f64());
        let (Some(x), Some(y)) = (next(), next()) else {
            return unsound("A position must be an array of at least two numbers.");
        };
        if !(x.is_finite() && y.is_finite()) {
            return unsound("The numbers of a position must be finite.");
        }
        if !self.planar && !(-90.0..=90.0).contains(&y) {
            return unsound("Latitude values must be between -90 and 90 degrees.");
        }
        if !self.planar && !(-180.0..=180.0).contains(&x) {
            return unsound("Longitude values must be between -180 and 180 degrees.");
        }
        Ok([x, y])
    }

    fn positions(&self, value: &Value<'_>) -> Read<Vec<Position>> {
        let Some(elements) = value.elements() else {
            return unsound("Coordinates must be an array of positions.");
        };
        elements.map(|element| self.position(&element)).collect()
    }

    fn polygons(&self, value: &Value<'_>) -> Read<Vec<Vec<Ring>>> {
        let elements = value.elements().into_iter().flatten();
        let polygons: Vec<_> =
            elements.map(|polygon| self.polygon(&polygon)).collect::<Read<_>>()?;
        if polygons.is_empty() {
            return unsound("A MultiPolygon must be an array of at least one polygon.");
        }
        Ok(polygons)
    }

    fn polygon(&self, value: &Value<'_>) -> Read<Vec<Ring>> {
        let elements = value.elements().into_iter().flatten();
        let rings: Vec<_> = elements.map(|ring| self.ring(&ring)).collect::<Read<_>>()?;
        if rings.is_empty() {
            return unsound("A polygon must be an array of at least one ring.");
        }
        Ok(rings)
    }

    fn ring(&self, value: &Value<'_>) -> Read<Ring> {
        let mut ring = self.positions(value)?;
        if ring.len() < 4 {
            return unsound("A ring of a polygon must have at least four positions.");
        }
        if ring.first() != ring.last() {
            return unsound("A ring of a polygon must end where it starts.");
        }
        ring.dedup();
        ring.pop();
        if ring.len() < 3 {
            return unsound("A ring of a polygon must have three different positions.");
        }
        Ok(ring)
    }
}

fn unsound<T>(reason: Reason) -> Read<T> {
    Err(Stop::Unsound(reason))
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
