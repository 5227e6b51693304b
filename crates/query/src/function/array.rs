//! Arrays and sets.

use super::{Function, Param};

mod contain;
mod make;
mod measure;
mod set;

use Param::{Any, Array, Integer, Object, String};

pub(super) const TABLE: &[Function] = &[
    Function::scalar(
        "ARRAY_AVG",
        &[Array],
        measure::average,
        "The mean of an array of numbers.",
        ("ARRAY_AVG([1, 2, 6])", "3"),
    ),
    Function::scalar(
        "ARRAY_CONCAT",
        &[Array, Array],
        make::concat,
        "The elements of all arrays in one.",
        ("ARRAY_CONCAT([1], [2], [])", "[1,2]"),
    )
    .repeating(),
    Function::scalar(
        "ARRAY_CONTAINS",
        &[Array, Any, Any],
        contain::contains,
        "Whether the array has the element; the third says whether a part of an object will do.",
        ("ARRAY_CONTAINS([{'a': 1, 'b': 2}], {'a': 1}, true)", "true"),
    )
    .optional(1)
    .seeing_all(),
    Function::scalar(
        "ARRAY_CONTAINS_ALL",
        &[Array, Any],
        contain::contains_all,
        "Whether the array has all the elements.",
        ("ARRAY_CONTAINS_ALL([1, 2, 3], 1, 3)", "true"),
    )
    .repeating()
    .seeing_all(),
    Function::scalar(
        "ARRAY_CONTAINS_ANY",
        &[Array, Any],
        contain::contains_any,
        "Whether the array has any of the elements.",
        ("ARRAY_CONTAINS_ANY([1, 2, 3], 3, 4)", "true"),
    )
    .repeating()
    .seeing_all(),
    Function::scalar(
        "ARRAY_LENGTH",
        &[Array],
        measure::length,
        "How many elements the array has.",
        ("ARRAY_LENGTH([1, null])", "2"),
    ),
    Function::scalar(
        "ARRAY_MAX",
        &[Array],
        measure::max,
        "The largest element; undefined where there is none, or any is an array or object.",
        ("ARRAY_MAX([1, 'a', null])", "\"a\""),
    ),
    Function::scalar(
        "ARRAY_MEDIAN",
        &[Array],
        measure::median,
        "The number in the middle of an array of numbers, or the mean of the two there.",
        ("ARRAY_MEDIAN([9, 1, 2, 3])", "2.5"),
    ),
    Function::scalar(
        "ARRAY_MIN",
        &[Array],
        measure::min,
        "The smallest element; undefined where there is none, or any is an array or object.",
        ("ARRAY_MIN([1, 'a', true])", "true"),
    ),
    Function::scalar(
        "ARRAY_SLICE",
        &[Array, Integer, Integer],
        make::slice,
        "The elements from a place on (from the end, where it is below 0), at most so many.",
        ("ARRAY_SLICE([1, 2, 3, 4], -3, 2)", "[2,3]"),
    )
    .optional(1),
    Function::scalar(
        "ARRAY_SUM",
        &[Array],
        measure::sum,
        "The sum of an array of numbers.",
        ("ARRAY_SUM([1, 2.5])", "3.5"),
    ),
    Function::scalar(
        "CHOOSE",
        &[Integer, Any],
        make::choose,
        "The argument at a place, counted from 1 after the first.",
        ("CHOOSE(2, 'a', 'b')", "\"b\""),
    )
    .repeating()
    .seeing_all(),
    Function::scalar(
        "OBJECTTOARRAY",
        &[Object, String, String],
        make::from_object,
        "The members of the object as objects with a name and a value, called k and v or as said.",
        ("OBJECTTOARRAY({'a': 1})", "[{\"k\":\"a\",\"v\":1}]"),
    )
    .optional(2),
    Function::scalar(
        "SETDIFFERENCE",
        &[Array, Array],
        set::difference,
        "The different elements of the first array that the second does not have.",
        ("SETDIFFERENCE([1, 1, 2], [2])", "[1]"),
    ),
    Function::scalar(
        "SETEQUAL",
        &[Array, Array],
        set::equal,
        "Whether both arrays have the same elements, however often and in whatever order.",
        ("SETEQUAL([1, 2, 2], [2, 1])", "true"),
    ),
    Function::scalar(
        "SETINTERSECT",
        &[Array, Array],
        set::intersect,
        "The different elements that both arrays have, in the order of the second.",
        ("SETINTERSECT([1, 2, 3], [3, 4, 1])", "[3,1]"),
    ),
    Function::scalar(
        "SETUNION",
        &[Array, Array],
        set::union,
        "The different elements of both arrays.",
        ("SETUNION([1, 2], [2, 3])", "[1,2,3]"),
    ),
];
