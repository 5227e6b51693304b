//! The header names that this server reads and sends: one list.

use hyper::header::HeaderName;

macro_rules! headers {
    ($($name:ident = $text:literal;)+) => {
        $(#[doc = concat!("`", $text, "`")] pub static $name: HeaderName = HeaderName::from_static($text);)+

        /// Those of the list that belong to the protocol, for `Access-Control-Allow-Headers`.
        pub const ALL: &[&str] = &[$($text,)+];
    };
}

headers! {
    A_IM = "a-im";
    ACTIVITY_ID = "x-ms-activity-id";
    ALT_CONTENT_PATH = "x-ms-alt-content-path";
    AUTOPILOT = "x-ms-cosmos-offer-autopilot-settings";
    BATCH_ATOMIC = "x-ms-cosmos-batch-atomic";
    BATCH_GO_ON = "x-ms-cosmos-batch-continue-on-error";
    CONSISTENCY = "x-ms-consistency-level";
    CONTENT_PATH = "x-ms-content-path";
    CONTINUATION = "x-ms-continuation";
    END_EPK = "x-ms-end-epk";
    EXPLAIN = "x-astrarium-explain";
    EXPIRY_SECONDS = "x-ms-documentdb-expiry-seconds";
    FEED_DELETES = "x-astrarium-feed-deletes";
    FEED_FORMAT = "x-ms-cosmos-changefeed-wire-format-version";
    INDEX_PROGRESS = "x-ms-documentdb-collection-index-transformation-progress";
    INDEX_METRICS = "x-ms-cosmos-index-utilization";
    INDEX_METRICS_TEXT_WANTED = "x-ms-cosmos-populateindexmetrics-v2";
    INDEX_METRICS_WANTED = "x-ms-cosmos-populateindexmetrics";
    INTENDED_RID = "x-ms-cosmos-intended-collection-rid";
    IS_BATCH = "x-ms-cosmos-is-batch-request";
    IS_QUERY = "x-ms-documentdb-isquery";
    IS_QUERY_PLAN = "x-ms-cosmos-is-query-plan-request";
    IS_UPSERT = "x-ms-documentdb-is-upsert";
    ITEM_COUNT = "x-ms-item-count";
    ITEM_LSN = "x-ms-item-lsn";
    LAST_EVENT_ID = "last-event-id";
    LSN = "lsn";
    MAX_ITEM_COUNT = "x-ms-max-item-count";
    MIN_THROUGHPUT = "x-ms-cosmos-min-throughput";
    MS_DATE = "x-ms-date";
    OFFER_PENDING = "x-ms-offer-replace-pending";
    PARTITION_KEY = "x-ms-documentdb-partitionkey";
    POST_TRIGGER = "x-ms-documentdb-post-trigger-include";
    PREFER = "prefer";
    PREFERENCE_APPLIED = "preference-applied";
    PRE_TRIGGER = "x-ms-documentdb-pre-trigger-include";
    QUERY_METRICS = "x-ms-documentdb-query-metrics";
    QUERY_METRICS_WANTED = "x-ms-documentdb-populatequerymetrics";
    RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
    READ_KEY_TYPE = "x-ms-read-key-type";
    REQUEST_CHARGE = "x-ms-request-charge";
    RETRY_AFTER_MS = "x-ms-retry-after-ms";
    SCRIPT_LOG = "x-ms-documentdb-script-log-results";
    SCRIPT_LOGGING = "x-ms-documentdb-script-enable-logging";
    SESSION_TOKEN = "x-ms-session-token";
    START_EPK = "x-ms-start-epk";
    SUBSTATUS = "x-ms-substatus";
    SUPPORTED_FEATURES = "x-ms-cosmos-supported-query-features";
    THROUGHPUT = "x-ms-offer-throughput";
    TO_AUTOSCALE = "x-ms-cosmos-migrate-offer-to-autopilot";
    TO_MANUAL = "x-ms-cosmos-migrate-offer-to-manual-throughput";
}
