//! The header names that this client sends and reads: one list.

use hyper::header::HeaderName;

macro_rules! headers {
    ($($name:ident = $text:literal;)+) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: HeaderName = HeaderName::from_static($text);)+
    };
}

headers! {
    A_IM = "a-im";
    ACTIVITY_ID = "x-ms-activity-id";
    AUTOPILOT = "x-ms-cosmos-offer-autopilot-settings";
    CAPABILITIES = "x-ms-cosmos-sdk-supportedcapabilities";
    CONTENT_PATH = "x-ms-content-path";
    CONTINUATION = "x-ms-continuation";
    CROSS_PARTITION = "x-ms-documentdb-query-enablecrosspartition";
    END_EPK = "x-ms-end-epk";
    FEED_DELETES = "x-astrarium-feed-deletes";
    FEED_FORMAT = "x-ms-cosmos-changefeed-wire-format-version";
    INTENDED_RID = "x-ms-cosmos-intended-collection-rid";
    EXPLAIN = "x-astrarium-explain";
    IS_QUERY = "x-ms-documentdb-isquery";
    IS_UPSERT = "x-ms-documentdb-is-upsert";
    LSN = "lsn";
    MAX_ITEM_COUNT = "x-ms-max-item-count";
    MS_DATE = "x-ms-date";
    MS_VERSION = "x-ms-version";
    PARTITION_KEY = "x-ms-documentdb-partitionkey";
    PREFER = "prefer";
    PREFERENCE_APPLIED = "preference-applied";
    RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
    READ_KEY_TYPE = "x-ms-read-key-type";
    REQUEST_CHARGE = "x-ms-request-charge";
    RETRY_AFTER_MS = "x-ms-retry-after-ms";
    SESSION_TOKEN = "x-ms-session-token";
    START_EPK = "x-ms-start-epk";
    SUBSTATUS = "x-ms-substatus";
    THROUGHPUT = "x-ms-offer-throughput";
}
