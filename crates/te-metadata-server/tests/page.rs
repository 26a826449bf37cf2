//! What the status page is told, and the numbers for machines.

mod common;

use common::{Client, pair};
use serde_json::{Value, json};

fn row(status: &Value, key: &str) -> Value {
    let rows = status["rows"].as_array().expect("the page has rows");
    rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key}")).clone()
}

fn status(client: &mut Client) -> Value {
    client.get("/v1/status").json()
}

#[test]
fn segments_are_summed_up_and_what_cannot_be_read_is_named() {
    let (_server, mut client) = pair();
    let empty = status(&mut client);
    assert_eq!((&empty["rows"], &empty["matching"]), (&json!([]), &json!(0)));
    let descriptor = r#"{"buffers":[{"addr":1,"length":1024,"name":"x"},{"addr":9,"length":1,"name":"x"}],"name":"a","protocol":"tcp"}"#;
    client.put("mooncake/ram/a", &[("te-owner", "me"), ("te-ttl-ms", "30000")], descriptor);
    client.put("mooncake/rpc_meta/a", &[], r#"{"ip_or_host_name":"10.0.0.1","rpc_port":15001}"#);
    client.put("mooncake/ram/b", &[], "{\"protocol\":");
    let full = status(&mut client);
    let a = row(&full, "mooncake/ram/a");
    let told = (&a["kind"], &a["protocol"], &a["buffers"], &a["memory"], &a["owner"]);
    assert_eq!(told, (&json!("segment"), &json!("tcp"), &json!(2), &json!(1025), &json!("me")));
    assert!(a["expires_ms"].as_u64().unwrap() > 20_000);
    assert!(a["age_ms"].as_u64().unwrap() < 60_000);
    assert_eq!(row(&full, "mooncake/rpc_meta/a")["address"], "10.0.0.1:15001");
    assert_eq!(row(&full, "mooncake/ram/b")["kind"], "malformed");
    assert_eq!((&full["keys"], &full["owners"]), (&json!(3), &json!(1)));
}

#[test]
fn a_segment_in_parts_is_told_with_its_chunks() {
    let (_server, mut client) = pair();
    let main = r#"{"buffers":[{"length":1}],"protocol":"tcp","te":{"extensions":{"buffer_chunks":{"chunks":[{"count":2,"digest":"9c"}],"total":3}}}}"#;
    client.put("mooncake/ram/a", &[], main);
    client.put(
        "mooncake/te_chunk/9c/a",
        &[],
        r#"{"buffers":[{"length":5},{"length":6}],"first":1}"#,
    );
    let told = status(&mut client);
    assert_eq!(row(&told, "mooncake/ram/a")["chunks"], json!(["9c"]));
    let chunk = row(&told, "mooncake/te_chunk/9c/a");
    let facts = (&chunk["kind"], &chunk["buffers"], &chunk["memory"]);
    assert_eq!(facts, (&json!("chunk"), &json!(2), &json!(11)));
}

#[test]
fn a_search_is_literal_and_says_how_much_it_left_out() {
    let (_server, mut client) = pair();
    (0..30).for_each(|n| drop(client.put(&format!("mooncake/ram/n{n}"), &[], "{}")));
    let found = client.get("/v1/status?q=ram/n1&limit=5").json();
    assert_eq!(found["rows"].as_array().unwrap().len(), 5);
    assert_eq!(found["matching"], 11, "n1 and n10 to n19");
    assert_eq!(client.get("/v1/status?q=.*").json()["matching"], 0);
}

#[test]
fn hostile_names_come_as_json_text_and_never_as_html() {
    let (_server, mut client) = pair();
    let name = "%3C%2Fscript%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E%00%E2%80%AE";
    let value = r#"{"protocol":"<img src=x onerror=alert(1)>","buffers":[]}"#;
    client.put(&format!("mooncake/ram/{name}"), &[("te-owner", "<b>me</b>")], value);
    let answer = client.get("/v1/status");
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let row = answer.json()["rows"][0].clone();
    assert_eq!(row["key"], "mooncake/ram/</script><script>alert(1)</script>\0\u{202e}");
    assert_eq!(row["owner"], "<b>me</b>");
    let page = client.get("/");
    assert!(!page.text().contains("alert(1)"), "the page itself holds nothing from outside");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(page.header("x-frame-options"), "DENY");
}

#[test]
fn a_thousand_large_descriptors_are_told_quickly_the_second_time() {
    let (_server, mut client) = pair();
    let buffers = vec![r#"{"addr":1,"length":4096,"name":"cpu:0"}"#; 500].join(",");
    let value = format!("{{\"buffers\":[{buffers}],\"protocol\":\"tcp\"}}");
    (0..1000).for_each(|n| {
        assert_eq!(client.put(&format!("mooncake/ram/n{n}"), &[], &value).status, 200)
    });
    let first = status(&mut client);
    assert_eq!(first["rows"].as_array().unwrap().len(), 1000);
    assert_eq!(first["rows"][0]["buffers"], 500);
    let (_, time) = common::timed(|| status(&mut client));
    assert!(time < std::time::Duration::from_secs(1), "{time:?}");
}

#[test]
fn health_and_metrics_are_for_machines() {
    let (_server, mut client) = pair();
    client.put("k", &[], "v");
    client.get("/metadata?key=nothing");
    let health = client.get("/health").json();
    assert_eq!((&health["status"], &health["durable"]), (&json!("ok"), &json!(false)));
    let metrics = client.get("/metrics");
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    for line in [
        "te_metadata_keys 1",
        "te_metadata_bytes 2",
        "te_metadata_healthy 1",
        "te_metadata_connections 1",
        "te_metadata_commits_total 1",
        "te_metadata_requests_total{path=\"metadata\",code=\"200\"} 1",
        "te_metadata_requests_total{path=\"metadata\",code=\"404\"} 1",
        "# TYPE te_metadata_keys gauge",
        "# TYPE te_metadata_commits_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let is_well_formed = |line: &str| {
        line.starts_with("# ")
            || line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<f64>().is_ok())
    };
    assert!(text.lines().all(is_well_formed), "{text}");
}
