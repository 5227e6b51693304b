//! `astrarium query` against a server, in the clear and through TLS.

use server::ask::Ask;

use crate::support::{Request, Running, soon, start};

async fn asked(server: &Running, scheme: &str, line: &str) -> Result<Vec<String>, String> {
    let endpoint = format!("{scheme}://localhost:{}", server.address.port());
    let words = ["--endpoint", &endpoint].into_iter().chain(line.split('|'));
    let ask = Ask::parse(words.map(str::to_owned))?;
    let mut lines = Vec::new();
    let answered = soon(ask.run(|line| {
        lines.push(line.to_owned());
        Ok(())
    }));
    answered.await.map(|()| lines)
}

#[tokio::test]
async fn rows_and_plans_come_through_both() {
    let server = start().await.with_container().await;
    for id in ["1", "2"] {
        let body = format!(r#"{{"id":"{id}","pk":"{id}","n":1.50}}"#);
        let request = Request::new("POST /dbs/d/colls/c/docs").pk(id).body(body);
        server.send(request).await.is(201);
    }
    for (scheme, flag) in [("http", ""), ("https", "--insecure|")] {
        let ask = |line: &str| format!("{flag}{line}");
        let line = ask("--parameter|@n=1|d|c|SELECT VALUE c.n FROM c WHERE c.n > @n");
        assert_eq!(asked(&server, scheme, &line).await.unwrap(), ["1.50", "1.50"]);
        let line = ask(r#"--partition-key|["2"]|d|c|SELECT VALUE c.id FROM c"#);
        assert_eq!(asked(&server, scheme, &line).await.unwrap(), ["\"2\""]);
        let line = ask("--explain|d|c|SELECT * FROM c WHERE c.n = 1.5");
        let told = asked(&server, scheme, &line).await.unwrap().join("\n");
        assert!(told.contains("scan of all documents\nindexes    none"), "{told}");
        let refused = asked(&server, scheme, &ask("d|c|SELECT FROM")).await.unwrap_err();
        assert!(refused.starts_with("400") && refused.contains("SC1001"), "{refused}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let server = start().await.with_container().await;
    let refused = asked(&server, "https", "d|c|SELECT * FROM c").await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}
