//! Places: geometries in GeoJSON, on the globe or on a plane as the container says.
//!
//! On the globe distances and areas are those of the WGS-84 ellipsoid; a line between two
//! positions lies in the plane through them and the centre of the earth. What is no valid
//! geometry is undefined.

use model::Result;

use self::figure::Figure;
use self::shape::Shape;
use super::{Call, Function, Param};
use crate::value::Value;

mod area;
mod bounds;
mod distance;
mod edge;
mod figure;
mod relate;
mod shape;
mod simple;
mod vector;

#[cfg(test)]
mod tests;

pub use bounds::{bounds, grown};

pub(super) const TABLE: &[Function] = &[
    Function::scalar(
        "ST_AREA",
        &[Param::Object],
        st_area,
        "The area of a geometry, in square metres on the globe.",
        ("ST_AREA({'type': 'Point', 'coordinates': [1, 2]})", "0"),
    ),
    Function::scalar(
        "ST_DISTANCE",
        &[Param::Object, Param::Object],
        st_distance,
        "How far two geometries are apart, in metres on the globe.",
        (
            "ROUND(ST_DISTANCE({'type': 'Point', 'coordinates': [0, 0]}, \
             {'type': 'Point', 'coordinates': [1, 0]}))",
            "111319",
        ),
    ),
    Function::scalar(
        "ST_INTERSECTS",
        &[Param::Object, Param::Object],
        st_intersects,
        "Whether two geometries share a point.",
        (
            "ST_INTERSECTS({'type': 'LineString', 'coordinates': [[0, 0], [2, 2]]}, \
             {'type': 'LineString', 'coordinates': [[0, 2], [2, 0]]})",
            "true",
        ),
    ),
    Function::scalar(
        "ST_ISVALID",
        &[Param::Any],
        |call, v| Ok(validity(call, &v[0])?.is_none().into()),
        "Whether it is a valid geometry.",
        ("ST_ISVALID({'type': 'Point', 'coordinates': [1, 91]})", "false"),
    ),
    Function::scalar(
        "ST_ISVALIDDETAILED",
        &[Param::Any],
        st_is_valid_detailed,
        "Whether it is a valid geometry, and why not.",
        ("ST_ISVALIDDETAILED({'type': 'Point', 'coordinates': [1, 2]})", "{\"valid\":true}"),
    ),
    Function::scalar(
        "ST_WITHIN",
        &[Param::Object, Param::Object],
        st_within,
        "Whether the first geometry lies within the second.",
        (
            "ST_WITHIN({'type': 'Point', 'coordinates': [1, 1]}, {'type': 'Polygon', \
             'coordinates': [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]})",
            "true",
        ),
    ),
];

fn shape(call: &Call<'_>, value: &Value<'_>) -> Result<Option<Shape>> {
    Ok(Shape::read(call.budget, value, call.settings.planar)?.ok())
}

/// Both geometries, and the same with directions for positions.
fn pair(call: &Call<'_>, arguments: &[Value<'_>]) -> Result<Option<[(Shape, Figure); 2]>> {
    let (a, b) = (shape(call, &arguments[0])?, shape(call, &arguments[1])?);
    let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
    let [x, y] = figure::figures(&a, &b, call.settings.planar);
    Ok(Some([(a, x), (b, y)]))
}

fn st_area<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match shape(call, &arguments[0])? {
        Some(shape) => Value::number(area::of(&shape, call.settings.planar)),
        None => Value::Undefined,
    })
}

fn st_distance<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some([(a, x), (b, y)]) = pair(call, arguments)? else { return Ok(Value::Undefined) };
    if relate::intersect(call.budget, &x, &y)? {
        return Ok(Value::int(0));
    }
    Ok(Value::number(if call.settings.planar {
        distance::on_plane(call.budget, &a, &b)?
    } else {
        distance::on_globe(call.budget, &x, &y)?
    }))
}

fn st_intersects<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some([(_, x), (_, y)]) = pair(call, arguments)? else { return Ok(Value::Undefined) };
    Ok(relate::intersect(call.budget, &x, &y)?.into())
}

fn st_within<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some([(_, x), (_, y)]) = pair(call, arguments)? else { return Ok(Value::Undefined) };
    Ok(relate::within(call.budget, &x, &y)?.into())
}

/// Why it is no valid geometry, if it is none.
fn validity(call: &Call<'_>, value: &Value<'_>) -> Result<Option<&'static str>> {
    match Shape::read(call.budget, value, call.settings.planar)? {
        Err(reason) => Ok(Some(reason)),
        Ok(shape) => {
            let [figure, _] = figure::figures(&shape, &shape, call.settings.planar);
            simple::fault(call.budget, &figure)
        }
    }
}

fn st_is_valid_detailed<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let reason = validity(call, &arguments[0])?;
    let mut members = vec![("valid".into(), Value::Bool(reason.is_none()))];
    members.extend(reason.map(|reason| ("reason".into(), Value::text(reason))));
    Ok(Value::object(members))
}
