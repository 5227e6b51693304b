//! Cases of numbers: a call and its answer; nothing where that is undefined.

use crate::function::check::check;

#[test]
fn reals() {
    check(
        r"
        ABS(-1)                         → 1
        ABS(-9223372036854775807)       → 9223372036854775807
        ABS(0.5)                        → 0.5
        ABS('1')                        →
        ABS(undefined)                  →
        ABS(null)                       →
        CEILING(-1.5)                   → -1
        CEILING(-0.5)                   → 0
        CEILING(9007199254740993)       → 9007199254740993
        CEILING(true)                   →
        FLOOR(1.9)                      → 1
        FLOOR(1e300)                    → 1e+300
        FLOOR([1])                      →
        ROUND(2.5)                      → 3
        ROUND(-0.4)                     → 0
        ROUND('2')                      →
        TRUNC(2.9)                      → 2
        TRUNC(-0.9)                     → 0
        TRUNC({})                       →
        SIGN(0)                         → 0
        SIGN(0.001)                     → 1
        SIGN(undefined)                 →
        SQUARE(-3)                      → 9
        SQUARE(1e200)                   →
        SQUARE(null)                    →
        SQRT(2)                         → 1.4142135623730951
        SQRT('4')                       →
        TOSTRING(SQRT(-1))              → 'NaN'
        EXP(1)                          → 2.718281828459045
        EXP(undefined)                  →
        TOSTRING(EXP(1000))             → 'Infinity'
        LOG(1)                          → 0
        LOG(100, 10)                    → 2
        LOG(27, 3)                      → 3
        LOG(8, '2')                     →
        LOG('8')                        →
        LOG10(0.001)                    → -3
        LOG10(null)                     →
        TOSTRING(LOG10(0))              → '-Infinity'
        POWER(2, 0.5)                   → 1.4142135623730951
        POWER(2, -1)                    → 0.5
        POWER('2', 1)                   →
        POWER(2, undefined)             →
        PI()                            → 3.141592653589793
        NUMBERBIN(37)                   → 37
        NUMBERBIN(-7, 5)                → -10
        NUMBERBIN(7, -5)                → 10
        NUMBERBIN(7, 0)                 →
        NUMBERBIN(0.37, 0.25)           → 0.25
        NUMBERBIN('7', 5)               →
        ",
    );
}

#[test]
fn angles() {
    check(
        r"
        ACOS(0)                         → 1.5707963267948966
        ACOS('0')                       →
        TOSTRING(ACOS(2))               → 'NaN'
        ASIN(1)                         → 1.5707963267948966
        ASIN(null)                      →
        ASIN(-1)                        → -1.5707963267948966
        ATAN(1)                         → 0.7853981633974483
        ATAN(undefined)                 →
        ATAN([])                        →
        ATN2(1, 0)                      → 1.5707963267948966
        ATN2(-1, -1)                    → -2.356194490192345
        ATN2('1', 0)                    →
        ATN2(1, undefined)              →
        COS(PI())                       → -1
        COS('0')                        →
        COS(undefined)                  →
        SIN(PI())                       → 1.2246467991473532e-16
        SIN('0')                        →
        SIN(null)                       →
        TAN(0.7853981633974483)         → 0.9999999999999999
        TAN(false)                      →
        TAN(undefined)                  →
        TOSTRING(COT(0))                → 'Infinity'
        COT(1)                          → 0.6420926159343306
        COT('1')                        →
        DEGREES(1)                      → 57.29577951308232
        DEGREES('1')                    →
        DEGREES(undefined)              →
        RADIANS(90)                     → 1.5707963267948966
        RADIANS('90')                   →
        RADIANS(null)                   →
        ",
    );
}

#[test]
fn integers() {
    check(
        r"
        INTADD(9223372036854775807, 1)      → -9223372036854775808
        INTADD(1.0, 2)                      → 3
        INTADD(1.5, 2)                      →
        INTADD('1', 2)                      →
        INTSUB(-9223372036854775807, 2)     → 9223372036854775807
        INTSUB(undefined, 2)                →
        INTSUB(1, 2.5)                      →
        INTMUL(9223372036854775807, 2)      → -2
        INTMUL(-3, 4)                       → -12
        INTMUL(null, 4)                     →
        INTDIV(7, 2)                        → 3
        INTDIV(7, 0)                        →
        INTDIV(INTSUB(-9223372036854775807, 1), -1) → -9223372036854775808
        INTDIV(7, 0.5)                      →
        INTMOD(7, -2)                       → 1
        INTMOD(7, 0)                        →
        INTMOD(INTSUB(-9223372036854775807, 1), -1) → 0
        INTMOD('7', 2)                      →
        INTBITAND(-1, 255)                  → 255
        INTBITAND(1.5, 1)                   →
        IntBitwiseAnd(6, 3)                 → 2
        INTBITOR(-2, 1)                     → -1
        INTBITOR(1, 'a')                    →
        IntBitwiseOr(4, 1)                  → 5
        INTBITXOR(-1, 0)                    → -1
        INTBITXOR(1, null)                  →
        IntBitwiseXor(7, 2)                 → 5
        INTBITNOT(-1)                       → 0
        INTBITNOT(0.5)                      →
        IntBitwiseNot(0)                    → -1
        INTBITLEFTSHIFT(1, 63)              → -9223372036854775808
        INTBITLEFTSHIFT(1, 64)              →
        INTBITLEFTSHIFT(1, -1)              →
        IntBitwiseLeftShift(1, 4)           → 16
        INTBITRIGHTSHIFT(-1, 63)            → -1
        INTBITRIGHTSHIFT(1, 64)             →
        INTBITRIGHTSHIFT('1', 1)            →
        IntBitwiseRightShift(16, 4)         → 1
        ",
    );
}

#[test]
fn chance() {
    check(
        r"
        RAND()                              → 0.25
        ",
    );
}
