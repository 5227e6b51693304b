//! Cases of arrays: a call and its answer; nothing where that is undefined.

use crate::function::check::check;

#[test]
fn elements() {
    check(
        r#"
        ARRAY_CONTAINS([1, 2], 2.0)                     → true
        ARRAY_CONTAINS([1, 2], '2')                     → false
        ARRAY_CONTAINS([[1], {'a': 1}], [1])            → true
        ARRAY_CONTAINS([{'a': 1, 'b': 2}], {'a': 1})    → false
        ARRAY_CONTAINS([{'a': 1, 'b': 2}], {'b': 2}, true) → true
        ARRAY_CONTAINS([{'a': {'x': 1, 'y': 2}}], {'a': {'x': 1}}, true) → false
        ARRAY_CONTAINS([1, 2], 2, true)                 → true
        ARRAY_CONTAINS([1, 'a'], {}, true)              → false
        ARRAY_CONTAINS([1], 1, undefined)               → true
        ARRAY_CONTAINS([1], 1, 'yes')                   →
        ARRAY_CONTAINS([1], undefined)                  →
        ARRAY_CONTAINS([null], null)                    → true
        ARRAY_CONTAINS('ab', 'a')                       →
        ARRAY_CONTAINS_ALL([1, 2], 1, 2)                → true
        ARRAY_CONTAINS_ALL([1, 2], 1, 3)                → false
        ARRAY_CONTAINS_ALL([1, 2], 1, undefined)        →
        ARRAY_CONTAINS_ALL([1, 2], 3, undefined)        → false
        ARRAY_CONTAINS_ALL(1, 1)                        →
        ARRAY_CONTAINS_ANY([1, 2], 3, 2)                → true
        ARRAY_CONTAINS_ANY([1, 2], 3, 4)                → false
        ARRAY_CONTAINS_ANY([1, 2], undefined, 1)        → true
        ARRAY_CONTAINS_ANY([1, 2], undefined, 3)        →
        ARRAY_CONTAINS_ANY({}, 1)                       →
        ARRAY_CONTAINS_ANY([1])                         → ! requires at least 2 argument(s)
        ARRAY_LENGTH([])                                → 0
        ARRAY_LENGTH([1, undefined])                    → 1
        ARRAY_LENGTH('abc')                             →
        ARRAY_LENGTH(undefined)                         →
        "#,
    );
}

#[test]
fn parts() {
    check(
        r#"
        ARRAY_CONCAT([1], [[2]])            → [1,[2]]
        ARRAY_CONCAT([], [])                → []
        ARRAY_CONCAT([1], 2)                →
        ARRAY_CONCAT([1], undefined)        →
        ARRAY_SLICE([1, 2, 3], 1)           → [2,3]
        ARRAY_SLICE([1, 2, 3], -2)          → [2,3]
        ARRAY_SLICE([1, 2, 3], -9, 1)       → [1]
        ARRAY_SLICE([1, 2, 3], 3)           → []
        ARRAY_SLICE([1, 2, 3], 0, 0)        → []
        ARRAY_SLICE([1, 2, 3], 0, -1)       → []
        ARRAY_SLICE([1, 2, 3], 1, 9223372036854775807) → [2,3]
        ARRAY_SLICE([1, 2, 3], 0.5)         →
        ARRAY_SLICE([1, 2, 3], 0, '1')      →
        ARRAY_SLICE('abc', 1)               →
        CHOOSE(1, 'a', 'b')                 → 'a'
        CHOOSE(3, 'a', 'b')                 →
        CHOOSE(0, 'a')                      →
        CHOOSE(1.5, 'a', 'b')               →
        CHOOSE('1', 'a')                    →
        CHOOSE(1, 'a', undefined)           → 'a'
        OBJECTTOARRAY({})                   → []
        OBJECTTOARRAY({'b': [1], 'a': null}) → [{"k":"b","v":[1]},{"k":"a","v":null}]
        OBJECTTOARRAY({'a': 1}, 'name', 'is') → [{"name":"a","is":1}]
        OBJECTTOARRAY({'a': 1}, 1, 'is')    →
        OBJECTTOARRAY([1])                  →
        "#,
    );
}

#[test]
fn amounts() {
    check(
        r"
        ARRAY_SUM([])                       → 0
        ARRAY_SUM([1, 2])                   → 3
        ARRAY_SUM([9007199254740993, 1])    → 9007199254740994
        ARRAY_SUM([1, '2'])                 →
        ARRAY_SUM([1, null])                →
        ARRAY_AVG([1, 2])                   → 1.5
        ARRAY_AVG([])                       →
        ARRAY_AVG([true])                   →
        ARRAY_AVG(1)                        →
        ARRAY_MEDIAN([3, 1, 2])             → 2
        ARRAY_MEDIAN([4])                   → 4
        ARRAY_MEDIAN([])                    →
        ARRAY_MEDIAN(['a'])                 →
        ARRAY_MIN([3, 1, 2])                → 1
        ARRAY_MIN([3, null, false])         → null
        ARRAY_MIN([])                       →
        ARRAY_MIN([1, []])                  →
        ARRAY_MIN(1)                        →
        ARRAY_MAX([3, 1, 2])                → 3
        ARRAY_MAX(['a', 'B', 9])            → 'a'
        ARRAY_MAX([true, {}])               →
        ARRAY_MAX(undefined)                →
        ",
    );
}

#[test]
fn sets() {
    check(
        r#"
        SETUNION([1, 1, 2], [2, 3, 1.0])    → [1,2,3]
        SETUNION([], [])                    → []
        SETUNION([{'a': 1, 'b': 2}], [{'b': 2, 'a': 1}]) → [{"a":1,"b":2}]
        SETUNION([1], 1)                    →
        SETINTERSECT([1, 2, 2], [2, 2, 1])  → [2,1]
        SETINTERSECT([1], ['1'])            → []
        SETINTERSECT([1], undefined)        →
        SETDIFFERENCE([3, 1, 3], [1])       → [3]
        SETDIFFERENCE([1], [1])             → []
        SETDIFFERENCE(null, [1])            →
        SETEQUAL([1, 2], [2, 1, 1])         → true
        SETEQUAL([1], [1, 2])               → false
        SETEQUAL([], [])                    → true
        SETEQUAL([], {})                    →
        "#,
    );
}
