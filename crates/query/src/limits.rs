//! Every limit of a query, by name.

/// Longest query text.
pub const TEXT_BYTES: usize = 512 * 1024;
/// Deepest nesting of parentheses, calls, literals and subqueries in a text.
pub const NESTING: usize = 128;
/// Highest tree that a chain of operators (`a + b + c …`) may build.
pub const TREE_HEIGHT: usize = 200;
/// `JOIN`s of one query.
pub const JOINS: usize = 10;
/// Queries below each other that are about all items together (`FROM (SELECT DISTINCT …)`): each is
/// kept with all that is below it.
pub const WHOLE_SUBQUERIES: usize = 8;
/// Calls of user-defined functions in one query.
pub const UDF_CALLS: usize = 10;
/// Steps of rows that are rehearsed at once for the functions they call.
pub const REHEARSAL_STEPS: u64 = 50_000;
/// How often the same rows are rehearsed at most.
pub const REHEARSALS: usize = 32;
/// Keys of one `ORDER BY`.
pub const ORDER_KEYS: usize = 8;
/// Largest count of `TOP`, `OFFSET` and `LIMIT`.
pub const COUNT_MAX: u64 = i32::MAX as u64;
/// Bytes of one string or list that an expression builds.
pub const VALUE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one row of the answer.
pub const ROW_BYTES: usize = 16 * 1024 * 1024;
/// Steps (rows of subqueries, elements looked at) that one row may cost before it is refused: no
/// other query goes on meanwhile.
pub const ROW_STEPS: u64 = 5_000_000;
/// Steps after which a query lets others go on.
pub const STEPS_BETWEEN_BREATHS: u64 = 20_000;
/// Bytes that grouping, sorting, `DISTINCT` and aggregates of one page may hold.
pub const MEMORY_BYTES: usize = 64 * 1024 * 1024;
/// Keys collected from indexes before a plan falls back to reading documents.
pub const INDEX_KEYS: usize = 1_000_000;
/// Index scans that one filter may ask for; with more, all documents are read.
pub const INDEX_SCANS: usize = 1_000;
/// Documents read from the source at once.
pub const CHUNK_DOCUMENTS: usize = 256;
/// Most rows of one page, whatever the caller asks for.
pub const PAGE_ROWS: usize = 10_000;
/// Longest string that `REPLICATE` makes, in UTF-16 units; beyond it the answer is undefined.
pub const REPLICATED_UNITS: usize = 10_000;
/// Deepest value that a function walks through.
pub const BUILT_DEPTH: usize = 256;
/// Longest regular expression.
pub const PATTERN_BYTES: usize = 16 * 1024;
/// Memory of a compiled regular expression, and again of what it keeps while it matches.
pub const PATTERN_PROGRAM_BYTES: usize = 2 * 1024 * 1024;
/// Steps that compiling a regular expression counts for.
pub const PATTERN_STEPS: u64 = 10_000;
/// Longest word of a full text; of longer ones the beginning counts.
pub const WORD_BYTES: usize = 255;
/// Letters by which a word sought in a full text may differ.
pub const FUZZY_LETTERS: usize = 2;
