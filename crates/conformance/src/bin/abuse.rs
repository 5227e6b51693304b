//! Bad manners against a running server, each followed by a request that must work:
//! cut bodies, slow clients, huge bodies, replayed signatures, thousands of idle connections.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use conformance::http::{Response, connect, read_response};
use conformance::server::{Scratch, Server, binary};
use conformance::wire::{Wire, signed};

type Check = fn(&mut Host) -> Result<(), String>;

/// What is tried, in order.
const CHECKS: [(&str, Check); 17] = [
    ("a body cut short is not stored", cut_body),
    ("a request cut in its head does no harm", cut_head),
    ("bytes that are no HTTP are turned away", not_http),
    ("a content length that is no number is refused", bad_length),
    ("a body of 100 MB is refused before it is all there", huge_body),
    ("a chunked body without end is refused", endless_chunks),
    ("a body in chunks is read", chunked_bodies),
    ("a chunked body that breaks off is let go", cut_chunks),
    ("many large bodies at once are bounded", many_large_bodies),
    ("a very long path is refused", long_path),
    ("very long headers are refused", long_headers),
    ("many headers are refused", many_headers),
    ("a slow client does not hold others up", slow_client),
    ("a signature is good for its own request only", replayed_signature),
    ("requests in a row on one connection are answered in order", pipelined),
    ("2,000 idle connections leave room for one that works", idle_connections),
    ("a thousand connections that come and go leave nothing behind", short_connections),
];

/// Memory that all of this may take, in KiB. The huge body alone would take 100 MB if it were kept.
const MEMORY_KIB: u64 = 400 * 1024;

const ITEMS: &str = "/dbs/abuse/colls/c/docs";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["a"]"#);

struct Host {
    server: Server,
    wire: Wire,
}

fn main() -> ExitCode {
    let scratch = Scratch::new("abuse").expect("a place for the server's data");
    let arguments = ["--header-timeout", "3", "--body-timeout", "3", "--log-level", "error"];
    let server = Server::start(&binary(), scratch.path(), &arguments).expect("the server starts");
    let wire = Wire::new(&server.endpoint);
    let mut host = Host { server, wire };
    prepare(&mut host);
    let mut failed = 0;
    for (name, check) in CHECKS {
        let start = Instant::now();
        let result = check(&mut host).and_then(|()| still_works(&mut host));
        match result {
            Ok(()) => println!("ok {name} ({} ms)", start.elapsed().as_millis()),
            Err(error) => {
                failed += 1;
                println!("FAILED {name}: {error}");
            }
        }
    }
    println!("{} passed, {failed} failed", CHECKS.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn prepare(host: &mut Host) {
    let container = br#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    for (path, body) in [("/dbs", &br#"{"id":"abuse"}"#[..]), ("/dbs/abuse/colls", &container[..])]
    {
        let made = host.wire.send("POST", path, &[], body).expect("the server answers");
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let made = host
        .wire
        .send("POST", ITEMS, &[KEY], br#"{"id":"1","pk":"a"}"#)
        .expect("the server answers");
    assert_eq!(made.status, 201, "{}", made.text());
}

/// The server is up, answers soon, and has not grown.
fn still_works(host: &mut Host) -> Result<(), String> {
    let start = Instant::now();
    let answer = host
        .wire
        .send("GET", &format!("{ITEMS}/1"), &[KEY], &[])
        .map_err(|error| format!("next request: {error}"))?;
    expect(&answer, &[200])?;
    if start.elapsed() > Duration::from_secs(5) {
        return Err(format!("the next request took {:?}", start.elapsed()));
    }
    match host.server.resident_kib() {
        Some(kib) if kib > MEMORY_KIB => Err(format!("the server holds {} MB", kib / 1024)),
        _ => Ok(()),
    }
}

fn expect(answer: &Response, statuses: &[u16]) -> Result<(), String> {
    if statuses.contains(&answer.status) {
        return Ok(());
    }
    Err(format!("expected {statuses:?}, got {} {}", answer.status, answer.text()))
}

fn open(host: &Host) -> Result<TcpStream, String> {
    connect(host.wire.host()).map_err(|error| error.to_string())
}

fn answer_of(stream: TcpStream) -> Result<Response, String> {
    read_response(&mut BufReader::new(stream), false).map_err(|error| format!("no answer: {error}"))
}

/// Sends bytes as they are and reads the answer.
fn raw(host: &Host, bytes: &[u8]) -> Result<Response, String> {
    let mut stream = open(host)?;
    // The server may answer and close before it has everything.
    let _ = stream.write_all(bytes);
    answer_of(stream)
}

fn create(id: &str, host: &Host) -> Vec<u8> {
    let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
    signed("POST", ITEMS, &[KEY], body.as_bytes()).bytes(host.wire.host())
}

fn cut_body(host: &mut Host) -> Result<(), String> {
    let bytes = create("cut", host);
    let mut stream = open(host)?;
    stream.write_all(&bytes[..bytes.len() - 5]).map_err(|error| error.to_string())?;
    stream.shutdown(Shutdown::Write).map_err(|error| error.to_string())?;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let answer = host
        .wire
        .send("GET", &format!("{ITEMS}/cut"), &[KEY], &[])
        .map_err(|error| error.to_string())?;
    expect(&answer, &[404])
}

fn cut_head(host: &mut Host) -> Result<(), String> {
    let bytes = create("cut", host);
    for length in [1, 4, 20, 100] {
        let mut stream = open(host)?;
        stream.write_all(&bytes[..length]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn not_http(host: &mut Host) -> Result<(), String> {
    for bytes in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"SSH-2.0-client\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
    ] {
        let mut stream = open(host)?;
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        if answer.starts_with(b"HTTP/1.1 2") {
            return Err("it was answered with success".to_owned());
        }
    }
    Ok(())
}

fn bad_length(host: &mut Host) -> Result<(), String> {
    let mut request = signed("POST", ITEMS, &[KEY], b"{}");
    request.set("content-length", "banana");
    expect(&raw(host, &request.bytes(host.wire.host()))?, &[400])
}

fn huge_body(host: &mut Host) -> Result<(), String> {
    let before = host.server.resident_kib().unwrap_or(0);
    let mut request = signed("POST", ITEMS, &[KEY], b"{\"id\":\"huge\",\"pk\":\"a\",\"t\":\"");
    request.set("content-length", (100 * 1024 * 1024).to_string());
    let mut stream = open(host)?;
    let reader = stream.try_clone().map_err(|error| error.to_string())?;
    let _ = stream.write_all(&request.bytes(host.wire.host()));
    let block = vec![b'x'; 1024 * 1024];
    for _ in 0..99 {
        if stream.write_all(&block).is_err() {
            break;
        }
    }
    expect(&answer_of(reader)?, &[413])?;
    let grown = host.server.resident_kib().unwrap_or(0).saturating_sub(before);
    if grown > 50 * 1024 {
        return Err(format!("the server grew by {} MB", grown / 1024));
    }
    Ok(())
}

/// The head of a request whose body comes in chunks.
fn chunked(host: &Host, verb: &str, path: &str) -> String {
    let mut request = signed(verb, path, &[KEY], b"");
    request.set("transfer-encoding", "chunked");
    String::from_utf8_lossy(&request.bytes(host.wire.host())).replace("content-length: 0\r\n", "")
}

fn chunked_bodies(host: &mut Host) -> Result<(), String> {
    let get = chunked(host, "GET", &format!("{ITEMS}/1"));
    expect(&raw(host, format!("{get}0\r\n\r\n").as_bytes())?, &[200])?;
    for (pieces, apart) in [(1, false), (2, false), (7, true)] {
        let body = format!(r#"{{"id":"{pieces} chunks","pk":"a"}}"#);
        let mut parts = vec![chunked(host, "POST", ITEMS)];
        for piece in body.as_bytes().chunks(body.len().div_ceil(pieces)) {
            parts.push(format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
        }
        parts.push("0\r\n\r\n".to_owned());
        let mut stream = open(host)?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        // At once, or each part by itself.
        let sent = if apart { parts } else { vec![parts.concat()] };
        for part in sent {
            stream.write_all(part.as_bytes()).map_err(|error| error.to_string())?;
        }
        expect(&answer_of(stream)?, &[201])?;
    }
    Ok(())
}

fn cut_chunks(host: &mut Host) -> Result<(), String> {
    let head = chunked(host, "POST", ITEMS);
    let mut stream = open(host)?;
    let part = format!("{head}5\r\n{{\"id\"\r\n");
    stream.write_all(part.as_bytes()).map_err(|error| error.to_string())?;
    stream.shutdown(std::net::Shutdown::Write).map_err(|error| error.to_string())?;
    // It may be refused, or hear nothing: there is nobody who would read.
    match answer_of(stream) {
        Ok(answer) => expect(&answer, &[400]),
        Err(_) => Ok(()),
    }
}

fn endless_chunks(host: &mut Host) -> Result<(), String> {
    let head = chunked(host, "POST", ITEMS);
    let mut stream = open(host)?;
    let reader = stream.try_clone().map_err(|error| error.to_string())?;
    let _ = stream.write_all(head.as_bytes());
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..200 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    expect(&answer_of(reader)?, &[413])
}

fn many_large_bodies(host: &mut Host) -> Result<(), String> {
    let body = format!(r#"{{"id":"large","pk":"a","t":"{}"}}"#, "x".repeat(1_900_000));
    let bytes =
        signed("POST", ITEMS, &[KEY, ("x-ms-documentdb-is-upsert", "true")], body.as_bytes())
            .bytes(host.wire.host());
    let streams: Vec<TcpStream> = (0..40).map(|_| open(host)).collect::<Result<_, _>>()?;
    let threads: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            let bytes = bytes.clone();
            std::thread::spawn(move || {
                let _ = stream.write_all(&bytes);
                answer_of(stream)
            })
        })
        .collect();
    for thread in threads {
        expect(&thread.join().expect("a sender does not panic")?, &[200, 201, 429, 503])?;
    }
    Ok(())
}

fn long_path(host: &mut Host) -> Result<(), String> {
    let path = format!("/dbs/{}", "x".repeat(100_000));
    expect(
        &raw(host, &signed("GET", &path, &[], &[]).bytes(host.wire.host()))?,
        &[400, 404, 414, 431],
    )
}

fn long_headers(host: &mut Host) -> Result<(), String> {
    let long = "x".repeat(2_000_000);
    expect(
        &raw(host, &signed("GET", ITEMS, &[("x-long", &long)], &[]).bytes(host.wire.host()))?,
        &[400, 431],
    )
}

fn many_headers(host: &mut Host) -> Result<(), String> {
    let names: Vec<String> = (0..5000).map(|n| format!("x-header-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "y")).collect();
    expect(&raw(host, &signed("GET", ITEMS, &headers, &[]).bytes(host.wire.host()))?, &[400, 431])
}

/// A byte now and then: others are served meanwhile, and in the end the server gives up.
fn slow_client(host: &mut Host) -> Result<(), String> {
    let bytes = create("slow", host);
    let mut stream = open(host)?;
    stream.write_all(&bytes[..40]).map_err(|error| error.to_string())?;
    let start = Instant::now();
    for byte in &bytes[40..] {
        still_works(host)?;
        std::thread::sleep(Duration::from_millis(500));
        if stream.write_all(&[*byte]).is_err() || start.elapsed() > Duration::from_secs(8) {
            break;
        }
    }
    let mut rest = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    match stream.read_to_end(&mut rest) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
        Err(_) => Err("the server waits for a slow head without end".to_owned()),
    }
}

fn replayed_signature(host: &mut Host) -> Result<(), String> {
    let good = signed("GET", &format!("{ITEMS}/1"), &[KEY], &[]);
    expect(&raw(host, &good.bytes(host.wire.host()))?, &[200])?;
    for (method, path) in [("DELETE", "/1"), ("GET", "/2"), ("GET", "")] {
        let mut replayed = good.clone();
        replayed.method = method.to_owned();
        replayed.path = format!("{ITEMS}{path}");
        expect(&raw(host, &replayed.bytes(host.wire.host()))?, &[401])?;
    }
    let mut redated = good.clone();
    redated.set("x-ms-date", conformance::date::now(1));
    expect(&raw(host, &redated.bytes(host.wire.host()))?, &[401])
}

fn pipelined(host: &mut Host) -> Result<(), String> {
    let mut stream = open(host)?;
    let mut bytes = Vec::new();
    for id in 0..20 {
        bytes.extend(signed("GET", &format!("{ITEMS}/{id}"), &[KEY], &[]).bytes(host.wire.host()));
    }
    stream.write_all(&bytes).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(stream);
    for id in 0..20 {
        let answer = read_response(&mut reader, false).map_err(|error| error.to_string())?;
        expect(&answer, if id == 1 { &[200] } else { &[404] })?;
    }
    Ok(())
}

fn idle_connections(host: &mut Host) -> Result<(), String> {
    let before = host.server.resident_kib().unwrap_or(0);
    let mut idle = Vec::new();
    for _ in 0..2000 {
        // Our own limit of open files may be lower than the server's.
        match connect(host.wire.host()) {
            Ok(stream) => idle.push(stream),
            Err(error) if idle.len() >= 900 => {
                println!("   {} connections only: {error}", idle.len());
                break;
            }
            Err(error) => return Err(format!("after {} connections: {error}", idle.len())),
        }
    }
    still_works(host)?;
    let mut fresh = Wire::new(&host.server.endpoint);
    let answer = fresh
        .send("GET", &format!("{ITEMS}/1"), &[KEY], &[])
        .map_err(|error| format!("a fresh connection: {error}"))?;
    expect(&answer, &[200])?;
    let grown = host.server.resident_kib().unwrap_or(0).saturating_sub(before);
    if grown > 100 * 1024 { Err(format!("the server grew by {} MB", grown / 1024)) } else { Ok(()) }
}

fn short_connections(host: &mut Host) -> Result<(), String> {
    let before = open_files(host);
    for _ in 0..1000 {
        let answer = raw(
            host,
            &signed("GET", &format!("{ITEMS}/1"), &[KEY, ("connection", "close")], &[])
                .bytes(host.wire.host()),
        )?;
        expect(&answer, &[200])?;
    }
    std::thread::sleep(Duration::from_millis(500));
    let after = open_files(host);
    if after > before + 50 {
        Err(format!("{before} open files before, {after} after"))
    } else {
        Ok(())
    }
}

fn open_files(host: &Host) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", host.server.pid())).map_or(0, Iterator::count)
}
