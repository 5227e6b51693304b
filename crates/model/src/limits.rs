//! Every limit that a user can run into, by name.

/// Largest item, as UTF-8 JSON text with its system properties.
pub const ITEM_BYTES: usize = 2 * 1024 * 1024;
/// Largest request body. Above the item limit, so that a too large item gets its own message.
pub const REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// Deepest nesting of arrays and objects in a body.
pub const JSON_DEPTH: usize = 128;
/// Longest item id, in bytes of UTF-8.
pub const ITEM_ID_BYTES: usize = 1023;
/// Longest id of every other resource, in characters.
pub const RESOURCE_ID_CHARS: usize = 255;
/// Largest partition key value, all levels together, in bytes of UTF-8.
pub const PARTITION_KEY_BYTES: usize = 2048;
/// Levels of a hierarchical partition key.
pub const PARTITION_KEY_LEVELS: usize = 3;
/// Operations of one patch.
pub const PATCH_OPERATIONS: usize = 10;
/// Operations of one batch.
pub const BATCH_OPERATIONS: usize = 100;
/// Largest body of a batch.
pub const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// What the operations of one atomic batch may read and write, added up: its largest answer.
pub const BATCH_RESULT_BYTES: usize = 4 * 1024 * 1024;
/// Deletes by partition key that one partition may have under way.
pub const KEY_DELETES: usize = 1000;
/// Containers that share the throughput of their database.
pub const SHARING_CONTAINERS: usize = 25;
/// Writes of one script.
pub const SCRIPT_WRITES: usize = 10_000;
/// Bytes of the items that one script writes, added up.
pub const SCRIPT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of rows, and of bodies where these are kept, that the changes of one script look at.
pub const SCRIPT_READ_BYTES: usize = 64 * 1024 * 1024;
/// Scripts that may wait for one that runs under the same partition key.
pub const SCRIPTS_WAITING: usize = 100;
/// Unique keys of a container.
pub const UNIQUE_KEYS: usize = 10;
/// Paths of one unique key.
pub const UNIQUE_KEY_PATHS: usize = 16;
/// Computed properties of a container.
pub const COMPUTED_PROPERTIES: usize = 20;
/// Included paths, and excluded paths, of an indexing policy.
pub const INDEXING_PATHS: usize = 1500;
/// Composite indexes of an indexing policy.
pub const COMPOSITE_INDEXES: usize = 100;
/// Properties of one composite index.
pub const COMPOSITE_INDEX_PATHS: usize = 8;
/// Most items of a feed page, whatever the client asks for.
pub const PAGE_ITEMS: usize = 1000;
/// A feed page ends once it has this many bytes of bodies.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Page size where the client leaves the choice to us.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Longest life of a resource token.
pub const RESOURCE_TOKEN_SECONDS: u64 = 18_000;
/// Life of a resource token where the client does not say.
pub const RESOURCE_TOKEN_SECONDS_DEFAULT: u64 = 3_600;
/// How far the date of a signature may be from ours.
pub const DATE_SKEW_SECONDS: u64 = 15 * 60;
/// Request units per second that one partition carries.
pub const PARTITION_RU_PER_SECOND: u32 = 10_000;
/// Most request units per second of a container or database.
pub const RU_PER_SECOND: u32 = 1_000_000;
/// Databases and containers of an account, together.
pub const ACCOUNT_RESOURCES: usize = 10_000;
