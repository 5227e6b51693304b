//! Cases of strings: a call and its answer; nothing where that is undefined.

use crate::function::check::check;

#[test]
fn searches() {
    check(
        r"
        CONTAINS('abc', 'bc')               → true
        CONTAINS('abc', '')                 → true
        CONTAINS('abc', 'BC')               → false
        CONTAINS('abc', 'BC', true)         → true
        CONTAINS('abc', 'BC', null)         →
        CONTAINS('abc', 1)                  →
        CONTAINS(undefined, 'a')            →
        CONTAINS('a')                       → ! requires 2 to 3 arguments
        STARTSWITH('Äbc', 'äB', true)       → true
        STARTSWITH('abc', 'b')              → false
        STARTSWITH(['abc'], 'a')            →
        ENDSWITH('abc', 'c')                → true
        ENDSWITH('abc', '')                 → true
        ENDSWITH('abc', 'C')                → false
        ENDSWITH(null, 'C')                 →
        STRINGEQUALS('a', 'a')              → true
        STRINGEQUALS('a', 'A')              → false
        STRINGEQUALS('É', 'é', true)        → true
        STRINGEQUALS('a', null)             →
        CONTAINS_ALL_CI('One Two', 'ONE', undefined)    →
        CONTAINS_ALL_CI('One Two', 'x', undefined)      → false
        CONTAINS_ALL_CI('One Two', 'one', 'two')        → true
        CONTAINS_ALL_CS('One Two', 'One', 'Two')        → true
        CONTAINS_ALL_CS('One Two', 1, 'x')              → false
        CONTAINS_ALL_CS(5, 'x')                         →
        CONTAINS_ANY_CI('One Two', undefined, 'TWO')    → true
        CONTAINS_ANY_CI('One Two', undefined, 'x')      →
        CONTAINS_ANY_CI('One Two', 'x', 'y')            → false
        ContainsAnyCs('One Two', 'x', 'One')            → true
        CONTAINS_ANY_CS('One Two', 'ONE')               → false
        CONTAINS_ANY_CS(undefined, 'ONE')               →
        INDEX_OF('abc', 'c')                → 2
        INDEX_OF('abc', 'x')                → -1
        INDEX_OF('abc', '')                 → 0
        INDEX_OF('abcabc', 'a', 1)          → 3
        INDEX_OF('abc', 'a', 9)             → -1
        INDEX_OF('abc', 'a', -5)            → 0
        INDEX_OF('abc', 'a', 0.5)           →
        INDEX_OF('😀b', 'b')                → 2
        INDEX_OF(1, 'b')                    →
        LASTINDEXOF('abcabc', 'bc')         → 4
        LASTINDEXOF('abcabc', 'bc', 4)      → 1
        LASTINDEXOF('abcabc', 'bc', 5)      → 4
        LASTINDEXOF('abcabc', 'bc', 99)     → 4
        LASTINDEXOF('abcabc', 'bc', -1)     → -1
        LASTINDEXOF('abc', 'x')             → -1
        LASTINDEXOF('abc', undefined)       →
        LENGTH('')                          → 0
        LENGTH('é')                         → 1
        LENGTH('😀')                        → 2
        LENGTH(5)                           →
        LENGTH(undefined)                   →
        ",
    );
}

#[test]
fn cuts() {
    check(
        r"
        LEFT('abc', 5)                      → 'abc'
        LEFT('abc', 0)                      → ''
        LEFT('abc', -1)                     → ''
        LEFT('abc', 1.5)                    →
        LEFT('😀b', 1)                      → ''
        LEFT('😀b', 2)                      → '😀'
        LEFT(1, 1)                          →
        RIGHT('abc', 9)                     → 'abc'
        RIGHT('abc', -1)                    → ''
        RIGHT('éa', 1)                      → 'a'
        RIGHT('abc', '1')                   →
        SUBSTRING('abc', 1, 1)              → 'b'
        SUBSTRING('abc', 1)                 → 'bc'
        SUBSTRING('abc', 0, 99)             → 'abc'
        SUBSTRING('abc', 3, 1)              → ''
        SUBSTRING('abc', 9, 1)              → ''
        SUBSTRING('abc', -1, 1)             → ''
        SUBSTRING('abc', 1, -1)             → ''
        SUBSTRING('abc', 9223372036854775807, 9223372036854775807) → ''
        SUBSTRING('a😀b', 2, 1)             → ''
        SUBSTRING('a😀b', 3, 1)             → 'b'
        SUBSTRING('abc', 0.5, 1)            →
        SUBSTRING(null, 0, 1)               →
        TRIM('  a b  ')                     → 'a b'
        TRIM('xyaxyx', 'yx')                → 'a'
        TRIM('xxx', 'x')                    → ''
        TRIM(' a ', '')                     → ' a '
        TRIM(1)                             →
        TRIM('a', 1)                        →
        LTRIM('xxaxx', 'x')                 → 'axx'
        LTRIM('')                           → ''
        LTRIM(undefined)                    →
        RTRIM('xxaxx', 'x')                 → 'xxa'
        RTRIM('   ')                        → ''
        RTRIM([])                           →
        LOWER('ÄBC')                        → 'äbc'
        LOWER('İ')                          → 'İ'
        LOWER(1)                            →
        UPPER('äbc ß')                      → 'ÄBC ß'
        UPPER('ABC')                        → 'ABC'
        UPPER(undefined)                    →
        ",
    );
}

#[test]
fn builds() {
    check(
        r#"
        CONCAT('a', '')                     → 'a'
        CONCAT('a', 1)                      →
        CONCAT('a', undefined)              →
        CONCAT('a')                         → ! requires at least 2 argument(s)
        REPLACE('aaa', 'a', 'bb')           → 'bbbbbb'
        REPLACE('abc', 'x', 'y')            → 'abc'
        REPLACE('abc', '', 'y')             →
        REPLACE('abc', 'a', 1)              →
        REPLICATE('ab', 0)                  → ''
        REPLICATE('ab', 2.9)                → 'abab'
        REPLICATE('ab', -1)                 →
        REPLICATE('ab', 5001)               →
        REPLICATE('', 1e300)                → ''
        REPLICATE('a', Infinity)            →
        REPLICATE('a', '1')                 →
        LENGTH(REPLICATE('a', 10000))       → 10000
        REVERSE('')                         → ''
        REVERSE('a😀')                      → '😀a'
        REVERSE(1)                          →
        STRINGJOIN([], '-')                 → ''
        STRINGJOIN(['a', ''], '-')          → 'a-'
        STRINGJOIN(['a', 1], '-')           →
        STRINGJOIN('a', '-')                →
        STRINGSPLIT('a--b', '-')            → ["a","","b"]
        STRINGSPLIT('', '-')                → [""]
        STRINGSPLIT('a-b', '')              → ["a-b"]
        STRINGSPLIT('aaa', 'aa')            → ["","a"]
        STRINGSPLIT('a', 1)                 →
        REPLACE(REPLICATE('a', 10000), 'a', REPLICATE('b', 10000)) → ! bytes of one value
        "#,
    );
}

#[test]
fn conversions() {
    check(
        r#"
        STRINGTOARRAY(' [1 , {"a" : 2}] ')      → [1,{"a":2}]
        STRINGTOARRAY('[1,]')                   →
        STRINGTOARRAY("['a']")                  →
        STRINGTOARRAY('{}')                     →
        STRINGTOARRAY(1)                        →
        STRINGTOOBJECT('{"a":[1]}')             → {"a":[1]}
        STRINGTOOBJECT('{a:1}')                 →
        STRINGTOOBJECT('[]')                    →
        STRINGTOOBJECT(undefined)               →
        STRINGTOBOOLEAN('false')                → false
        STRINGTOBOOLEAN('True')                 →
        STRINGTOBOOLEAN('1')                    →
        STRINGTOBOOLEAN(true)                   →
        STRINGTONULL(' null ')                  → null
        STRINGTONULL('NULL')                    →
        STRINGTONULL('')                        →
        STRINGTONULL(null)                      →
        STRINGTONUMBER('1.0')                   → 1
        STRINGTONUMBER('-1e-2')                 → -0.01
        STRINGTONUMBER('9223372036854775807')   → 9223372036854775807
        STRINGTONUMBER('+1')                    →
        STRINGTONUMBER('0x1')                   →
        STRINGTONUMBER('NaN')                   →
        STRINGTONUMBER('1e999')                 →
        STRINGTONUMBER(1)                       →
        TOSTRING('a')                           → 'a'
        TOSTRING(1.0)                           → '1'
        TOSTRING(1.50)                          → '1.5'
        TOSTRING(true)                          → 'true'
        TOSTRING(null)                          → 'null'
        TOSTRING(NaN)                           → 'NaN'
        TOSTRING(-Infinity)                     → '-Infinity'
        TOSTRING(undefined)                     →
        TOSTRING({'a': [1.0, null]})            → '{\"a\":[1,null]}'
        TOSTRING(STRINGTOARRAY('[1.0, 2]'))     → '[1,2]'
        "#,
    );
}

#[test]
fn patterns() {
    check(
        r"
        REGEXMATCH('abcd', 'bc')                → true
        REGEXMATCH('abcd', '^bc')               → false
        REGEXMATCH('ABCD', 'abcd', 'i')         → true
        REGEXMATCH('abcd', 'a b c d', 'x')      → true
        REGEXMATCH('a\nb', '^b$', 'm')          → true
        REGEXMATCH('a\nb', 'a.b')               → false
        REGEXMATCH('a\nb', 'a.b', 's')          → true
        REGEXMATCH('A\nB', 'a . b', 'isx')      → true
        REGEXMATCH('é1', '^\\w\\d$')            → true
        REGEXMATCH('abc', '')                   → true
        REGEXMATCH(1, 'a')                      →
        REGEXMATCH('a', undefined)              →
        REGEXMATCH('a', 'a', 1)                 →
        REGEXMATCH('a', '(')                    → ! REGEXMATCH cannot use its pattern
        REGEXMATCH('a', '(?=a)')                → ! look-around
        REGEXMATCH('a', 'a', 'g')               → ! not 'g'
        REGEXMATCH('a', '((a{100}){100}){100}') → ! size limit
        REGEXMATCH('a', CONCAT(REPLICATE('a', 9000), REPLICATE('a', 9000))) → ! bytes of a pattern
        REGEXMATCH('a', REPLICATE('(', 9000))   → ! REGEXMATCH cannot use its pattern
        ",
    );
}
