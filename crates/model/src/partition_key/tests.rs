//! Tests of partition keys, by the values that the service and its clients compute.

use serde_json::json;

use super::*;

fn definition(kind: Kind, version: u8, paths: &[&str]) -> Definition {
    let paths = paths.iter().map(|path| Path::parse(path).unwrap()).collect();
    Definition { paths, kind, version, system_key: false }
}

fn epk(version: u8, header: &str) -> String {
    let key = PartitionKey::parse_header(header).unwrap();
    definition(Kind::Hash, version, &["/pk"]).epk(&key).to_hex()
}

/// Header, version 2, version 1.
const VECTORS: &[(&str, &str, &str)] = &[
    (r#"[""]"#, "32E9366E637A71B4E710384B2F4970A0", "05C1CF33970FF80800"),
    (r#"["a"]"#, "3A5381E1114EB8D3FCC90795045B49B7", "05C1D78593652C086200"),
    (r#"["hello"]"#, "0A8B5792B7BA3C7C47B0D1305A3C6F8A", "05C1EFF74961FE0869666D6D7000"),
    (r#"["Seattle"]"#, "1FA1E63F928D920107C8D7720A70328B", "05C1CDB5FD3A0854666275756D6600"),
    (r#"["\u00e9"]"#, "007199F104E04116EE25AF912CA4889B", "05C1B3CD91912008C4AA00"),
    (
        r#"["\u65e5\u672c\u8a9e"]"#,
        "3F0624929BDE45571F050DCA6A1CB775",
        "05C1E31DE9C91E08E798A6E79DADE9AB9F00",
    ),
    ("[0]", "155B95BEDAC4B1E9EC1CDC9BB0DDDE58", "05C1BF6DA11560058000"),
    ("[1]", "20CD98B339BA78A5D0CF6953B87070B0", "05C1ED172B6B2605BFF0"),
    ("[5]", "19C08621B135968252FB34B4CF66F811", "05C1D9C1C5517C05C014"),
    ("[-1]", "19938E7A936C1C5B9E3AE842BBC16839", "05C1D1A5BDDF9C054010"),
    ("[1.5]", "35C5DDEB6C795D16A9963C73C54E97BC", "05C1E9694167A805BFF8"),
    ("[4294967296]", "0C746AE2C07859994662C1770E77CCFB", "05C1ED5B039B6005C1F0"),
    ("[-128]", "01DAEDABF913540367FE219B2AD06148", "05C1D73349F54C053FA0"),
    ("[127]", "0C507ACAC853ECA7977BF4CEFB562A25", "05C1DD539DDFCC05C05FE0"),
    ("[2147483647]", "2D9349D64712AEB5EB1406E2F0BE2725", "05C1E1F503DFB205C1DFFFFFFFFC"),
    ("[-9223372036854775808]", "23D5C6395512BDFEAFADAD15328AD2BB", "05C1DB35F33D1C053C20"),
    ("[9223372036854775807]", "2EDB959178DFCCA18983F89384D1629B", "05C1B799AB2DD005C3E0"),
    ("[5e-324]", "0E6CBA63A280927DE485DEF865800139", "05C1E5C91F4D3005800101010101010102"),
    (
        "[1.7976931348623157e308]",
        "31424D996457102634591FF245DBCC4D",
        "05C1CBE367C53005FFEFFFFFFFFFFFFFFE",
    ),
    (
        r#"["caf\u00e9 \u6771\u4eac \ud83d\ude80"]"#,
        "389ED563F219577470F42691A5234A68",
        "05C1DF0501C73008646267C4AA21E79EB2E5BBAD21F1A09B8100",
    ),
    ("[true]", "0E711127C5B5A8E4726AC6DD306A3E59", "05C1D7C5A903D803"),
    ("[false]", "2FE1BE91E90A3439635E0E9E37361EF2", "05C1DB857D857C02"),
    ("[null]", "378867E4430E67857ACE5C908374FE16", "05C1ED45D7475601"),
    ("[{}]", "11622DAA78F835834610ABE56EFF5CB5", "05C1D529E345DC00"),
];

#[test]
fn places_are_those_of_the_service() {
    for (header, version2, version1) in VECTORS {
        assert_eq!(epk(2, header), *version2, "{header}");
        assert_eq!(epk(1, header), *version1, "{header}");
    }
    assert_eq!(epk(2, "[-0.0]"), "3D018BB1DF3DB27235766E81FD10406E");
    assert_eq!(epk(2, "[]"), "");
}

#[test]
fn version_1_cuts_long_strings() {
    let cut = format!("05C1DD45A3938C08{}00", "79".repeat(100));
    for (length, version2) in [
        (100, "3F35F33CA8F8DA98DB46E18CDC66A245"),
        (101, "300C91B3A88EBBFFE4DB4541EA0875FC"),
        (200, "34C859F7FC157766FF5170B1131F5F2F"),
    ] {
        let header = format!("[\"{}\"]", "x".repeat(length));
        assert_eq!(epk(2, &header), version2);
        assert_eq!(epk(1, &header), cut);
    }
}

#[test]
fn version_1_cuts_between_units_and_bytes() {
    // Characters before the last, the last, then the place: its hash, its last bytes.
    for (count, last, hash, end) in [
        (97, "\u{1f600}", "C973BF7968", "F1A09981"),
        (98, "\u{1f600}", "DD87B7E74C", "F1A099"),
        (99, "\u{1f600}", "E153DB4558", "F0C0"),
        (100, "\u{1f600}", "EB5921F706", "00"),
        (99, "\u{20ac}", "D747E54D90", "E383"),
    ] {
        let header = format!("[\"{}{last}\"]", "a".repeat(count));
        assert_eq!(epk(1, &header), format!("05C1{hash}08{}{end}", "62".repeat(count)));
    }
}

#[test]
fn hierarchical_places_are_one_hash_a_level() {
    let definition = definition(Kind::MultiHash, 2, &["/a", "/b", "/c"]);
    let hex = |header| definition.epk(&PartitionKey::parse_header(header).unwrap()).to_hex();
    let (tenant, user, session) = (
        "3D48BB14DA9D090D22112C96695028B6",
        "2A947C94F6E254B945CEBC3196C9897C",
        "2924A879AFFF52A411F93F1A83532751",
    );
    assert_eq!(hex(r#"["t1"]"#), tenant);
    assert_eq!(hex(r#"["t1","u1"]"#), [tenant, user].concat());
    assert_eq!(hex(r#"["t1","u1","s1"]"#), [tenant, user, session].concat());
    assert_eq!(
        hex(r#"[null,"a","b"]"#),
        "378867E4430E67857ACE5C908374FE163A5381E1114EB8D3FCC90795045B49B7\
         195644569A78B1E22D200348AF9416CE"
    );
}

#[test]
fn ranges_hold_the_key_or_all_below_the_prefix() {
    let definition = definition(Kind::MultiHash, 2, &["/a", "/b"]);
    let key = |header| PartitionKey::parse_header(header).unwrap();
    let prefix = definition.range_of(&key(r#"["t1"]"#));
    let full = definition.range_of(&key(r#"["t1","u1"]"#));
    assert!(prefix.covers(&full) && full.contains(&definition.epk(&key(r#"["t1","u1"]"#))));
    assert!(!full.contains(&definition.epk(&key(r#"["t1","u2"]"#))));
    assert!(!prefix.contains(&definition.epk(&key(r#"["t2","u1"]"#))));
    assert_eq!(prefix.max.to_hex(), "3D48BB14DA9D090D22112C96695028B6FF");
    assert_eq!(definition.range_of(&PartitionKey::default()), EpkRange::full());
}

#[test]
fn headers_read_back_and_are_ascii() {
    for header in
        ["[]", "[{}]", r#"["a",5,true,null,{},-1.5]"#, r#"["\u00e9\ud83d\ude00\"\\\n"]"#, "[1e300]"]
    {
        let key = PartitionKey::parse_header(header).unwrap();
        assert!(key.to_header().is_ascii());
        assert_eq!(PartitionKey::parse_header(&key.to_header()), Ok(key), "{header}");
    }
    let key = PartitionKey::parse_header(" [ \"é😀\" , 3.0 ] ").unwrap();
    assert_eq!(key.to_header(), r#"["\u00e9\ud83d\ude00",3]"#);
}

#[test]
fn malformed_headers_are_refused() {
    for header in ["", "a", "\"a\"", "5", "{}", "[", "[[]]", "[{\"a\":1}]", "[\"a\"]]", "[1e999]"] {
        assert_eq!(PartitionKey::parse_header(header).unwrap_err().fault.status(), 400, "{header}");
    }
}

#[test]
fn definitions_read_back() {
    let given = json!({"paths": ["/a/b", "/\"odd \\\"name\"/c"], "kind": "MultiHash"});
    let definition = Definition::from_json(&given, 1).unwrap();
    assert_eq!(definition.paths[1].segments, ["odd \"name", "c"]);
    assert_eq!((definition.kind, definition.version), (Kind::MultiHash, 2));
    assert_eq!(Definition::from_json(&definition.to_json(), 1), Ok(definition));
    let short = Definition::from_json(&json!({"paths": ["/pk"]}), 1).unwrap();
    assert_eq!(short.to_json(), json!({"paths": ["/pk"], "kind": "Hash", "version": 1}));
    let system =
        json!({"paths": ["/_partitionKey"], "kind": "Hash", "version": 2, "systemKey": true});
    assert_eq!(Definition::from_json(&system, 2).unwrap().to_json(), system);
}

#[test]
fn malformed_definitions_are_refused() {
    for given in [
        json!([]),
        json!({}),
        json!({"paths": "/a"}),
        json!({"paths": []}),
        json!({"paths": [5]}),
        json!({"paths": ["/a", "/b"]}),
        json!({"paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash"}),
        json!({"paths": ["/a", "/\"a\""], "kind": "MultiHash"}),
        json!({"paths": ["/a"], "kind": "MultiHash", "version": 1}),
        json!({"paths": ["/a"], "kind": "Range"}),
        json!({"paths": ["/a"], "version": 3}),
        json!({"paths": ["/a"], "version": "2"}),
        json!({"paths": ["/a"], "systemKey": 1}),
    ] {
        assert_eq!(Definition::from_json(&given, 2).unwrap_err().fault.status(), 400, "{given}");
    }
    for path in
        ["", "a", "/", "/a/", "//a", "/a/[]", "/a/*", "/a/?", "/\"a", "/\"\"", "/\"a\"b", "/_ts"]
    {
        assert_eq!(Path::parse(path).unwrap_err().fault.status(), 400, "{path}");
    }
}

#[test]
fn values_are_taken_from_the_item() {
    let definition = definition(Kind::MultiHash, 2, &["/a/b", "/c", "/d"]);
    let extract = |text: &str| definition.extract(&Document::parse(text.as_bytes()).unwrap());
    let key = extract(r#"{"a":{"b":"\u0078"},"d":1e0}"#).unwrap();
    assert_eq!(
        key.0,
        [Component::String("x".into()), Component::Undefined, Component::Number(1.0)]
    );
    assert!(extract(r#"{"a":{"b":[]}}"#).is_err());
    assert!(extract(r#"{"c":{}}"#).is_err());
    assert!(extract(r#"{"c":1,"c":1}"#).is_err());
    let long = "x".repeat(1024);
    assert!(extract(&format!(r#"{{"c":"{long}","d":"{long}"}}"#)).is_ok());
    assert!(extract(&format!(r#"{{"c":"{long}","d":"{long}y"}}"#)).is_err());
}

#[test]
fn the_number_of_values_is_checked() {
    let check = |definition: &Definition, header| {
        let key = PartitionKey::parse_header(header).unwrap();
        (definition.check(&key).is_ok(), definition.is_full(&key))
    };
    let mut hash = definition(Kind::Hash, 2, &["/a"]);
    assert_eq!(check(&hash, "[1]"), (true, true));
    assert_eq!(check(&hash, "[]"), (false, false));
    assert_eq!(check(&hash, "[1,2]"), (false, false));
    hash.system_key = true;
    assert_eq!(check(&hash, "[]"), (true, true));
    let levels = definition(Kind::MultiHash, 2, &["/a", "/b"]);
    assert_eq!(check(&levels, "[1]"), (true, false));
    assert_eq!(check(&levels, "[1,2]"), (true, true));
    assert_eq!(check(&levels, "[1,2,3]"), (false, false));
    assert_eq!(check(&levels, "[]"), (false, false));
}

#[test]
fn bytes_sort_as_keys_and_read_back() {
    let sorted = [
        "[]",
        "[{}]",
        "[null]",
        "[false]",
        "[true]",
        "[-1e300]",
        "[-1.5]",
        "[-1]",
        "[-0.0]",
        "[0]",
        "[1]",
        "[2]",
        "[1e300]",
        r#"[""]"#,
        r#"["",1]"#,
        r#"["\u0000"]"#,
        r#"["\u0000a"]"#,
        r#"["a"]"#,
        r#"["a",null]"#,
        r#"["a","b"]"#,
        r#"["a\u0000"]"#,
        r#"["ab"]"#,
        r#"["é"]"#,
    ];
    let mut last = Vec::new();
    for header in sorted {
        let key = PartitionKey::parse_header(header).unwrap();
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        assert!(last < bytes, "{header}");
        let with_more = [&bytes[..], &[0xFF, 0]].concat();
        assert_eq!(PartitionKey::decode(&with_more), Some((key, &[0xFF, 0][..])), "{header}");
        for cut in 0..bytes.len() {
            assert_eq!(PartitionKey::decode(&bytes[..cut]), None);
        }
        last = bytes;
    }
}

#[test]
fn a_key_that_is_plainly_there_is_there() {
    let json = json!({"paths": ["/a/b", "/c"], "kind": "MultiHash", "version": 2});
    let definition = Definition::from_json(&json, 2).unwrap();
    let key = PartitionKey::parse_header(r#"["x","é"]"#).unwrap();
    let plainly = |text: &str| {
        let document = Document::parse(text.as_bytes()).unwrap();
        let there = definition.extract(&document).is_ok_and(|within| within == key);
        let plainly = definition.plainly_has(&document, &key);
        assert!(there || !plainly, "{text}");
        plainly
    };
    assert!(plainly(r#"{"c":"é","a":{"b":"x"}}"#));
    for other in [
        r#"{"a":{"b":"x"},"c":"\u00e9"}"#,
        r#"{"a":{"b":"x"},"c":"e"}"#,
        r#"{"a":{"b":"x"},"c":"é","c":"é"}"#,
        r#"{"a":{"b":"x"}}"#,
        r#"{"a":{"b":1},"c":"é"}"#,
        "{}",
    ] {
        assert!(!plainly(other), "{other}");
    }
    let short = PartitionKey::parse_header(r#"["x"]"#).unwrap();
    let document = Document::parse(r#"{"a":{"b":"x"},"c":"é"}"#.as_bytes()).unwrap();
    assert!(!definition.plainly_has(&document, &short));
    let escaped =
        PartitionKey(vec![Component::String("x\\n".into()), Component::String("é".into())]);
    let document = Document::parse(r#"{"a":{"b":"x\n"},"c":"é"}"#.as_bytes()).unwrap();
    assert!(!definition.plainly_has(&document, &escaped));
}

#[test]
fn headers_with_one_text_are_read_as_any_other() {
    for text in ["", "a", "é😀", "a,b", "[", "]", "]]", "{}", "a b", " ", "'", "\u{7f}"] {
        let key = PartitionKey(vec![Component::String(text.into())]);
        let plain = format!("[\"{text}\"]");
        // White space keeps it from being taken as it is.
        for header in [plain.clone(), format!(" {plain}"), key.to_header()] {
            assert_eq!(PartitionKey::parse_header(&header).as_ref(), Ok(&key), "{header}");
        }
    }
    for (header, texts) in [(r#"["a","b"]"#, vec!["a", "b"]), (r#"["a\"]"]"#, vec!["a\"]"])] {
        let key =
            PartitionKey(texts.into_iter().map(|text| Component::String(text.into())).collect());
        assert_eq!(PartitionKey::parse_header(header), Ok(key), "{header}");
    }
    for header in ["[\"", "[\"]", "\"]", "[\"a\u{1}\"]", "[\"a\n\"]", r#"["a\"]"#, r#"["a""]"#] {
        assert!(PartitionKey::parse_header(header).is_err(), "{header:?}");
    }
}
