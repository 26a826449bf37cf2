//! What Mooncake's clients are promised, and what ours are.

mod common;

use std::thread;
use std::time::Duration;

use common::{Client, Folder, pair, server, timed, wait_until};
use serde_json::json;
use te_metadata_server::Token;

const RPC: &str = "mooncake%2Frpc_meta%2F10.0.0.1%3A15001";

#[test]
fn b7_statuses_and_bodies_are_those_of_mooncakes_servers() {
    // B7 and the table of the peer's two servers: anything but 200 is an error to their client.
    let (_server, mut client) = pair();
    let check = |answer: common::Answer, status: u16, body: &str| {
        assert_eq!((answer.status, answer.text()), (status, body));
        assert_eq!(answer.header("te-metadata-server"), "1");
        assert_eq!(answer.header("content-type"), "application/json");
    };
    check(client.get(&format!("/metadata?key={RPC}")), 404, "metadata not found");
    check(client.put(RPC, &[], "{\"a\":1}"), 200, "metadata updated");
    check(client.get(&format!("/metadata?key={RPC}")), 200, "{\"a\":1}");
    check(client.get("/metadata?key=mooncake/rpc_meta/10.0.0.1:15001"), 200, "{\"a\":1}");
    check(client.put(RPC, &[], "{\"a\":1}"), 200, "metadata unchanged");
    check(client.delete(RPC, &[]), 200, "metadata deleted");
    check(client.delete(RPC, &[]), 404, "metadata not found");
    check(client.get("/metadata"), 400, "metadata key is required");
    check(client.get("/metadata?key="), 400, "metadata key is required");
    check(client.ask("POST", "/metadata?key=a", &[], b""), 405, "Method not allowed");
    check(client.get("/nothing"), 404, "no such path");
    let head = client.ask("HEAD", &format!("/metadata?key={RPC}"), &[], b"");
    assert_eq!((head.status, head.body.len()), (404, 0));
}

#[test]
fn values_are_kept_byte_for_byte() {
    let (_server, mut client) = pair();
    let all: Vec<u8> = (0..=255).collect();
    for value in [&b""[..], b"\n", b"{\"a\": 1}\n", &all, &vec![7; 5 << 20]] {
        let put = client.ask("PUT", "/metadata?key=k", &[], value);
        assert_eq!(put.status, 200);
        assert_eq!(client.get("/metadata?key=k").body, value);
    }
}

#[test]
fn fb19_publishing_the_same_again_is_no_error() {
    // FB19: PUT k=v, PUT k=v, PUT k=w of another owner, DELETE k, PUT k=w.
    let (_server, mut client) = pair();
    let (mine, yours) = ([("te-owner", "a")], [("te-owner", "b")]);
    let first = client.put(RPC, &mine, "v");
    assert_eq!((first.status, first.text()), (200, "metadata updated"));
    let again = client.put(RPC, &mine, "v");
    assert_eq!((again.status, again.text()), (200, "metadata unchanged"));
    assert_eq!(first.revision(), again.revision());
    let other = client.put(RPC, &yours, "w");
    assert_eq!(other.status, 409);
    assert_eq!(other.json()["owner"], "a");
    assert_eq!(other.json()["expires_ms"], json!(null));
    assert_eq!(client.delete(RPC, &[]).status, 200);
    assert_eq!(client.put(RPC, &yours, "w").status, 200);
}

#[test]
fn fault14_a_mooncake_client_that_restarts_is_never_refused() {
    // Peer fault 14: after kill -9 the first restart under the same name was refused with 400.
    let (_server, mut client) = pair();
    assert_eq!(client.put(RPC, &[], "port 1").status, 200);
    assert_eq!(client.put(RPC, &[], "port 2").status, 200);
    assert_eq!(client.value(RPC).unwrap(), "port 2");
    assert_eq!(client.put("owned", &[("te-owner", "a"), ("te-ttl-ms", "60000")], "v").status, 200);
    assert_eq!(client.put("owned", &[], "w").status, 200, "it names no owner, so it is taken");
    let now = client.get("/metadata?key=owned");
    assert_eq!((now.text(), now.header("te-owner"), now.header("te-expires-ms")), ("w", "", ""));
}

#[test]
fn fault15_who_leaves_removes_only_its_own() {
    let (_server, mut client) = pair();
    client.put("k", &[("te-owner", "a")], "v");
    let refused = client.delete("k", &[("te-owner", "b")]);
    assert_eq!((refused.status, refused.json()["owner"].as_str()), (412, Some("a")));
    client.put("k", &[], "of a Mooncake client");
    let refused = client.delete("k", &[("te-owner", "a")]);
    assert_eq!((refused.status, refused.json()["owner"].as_str()), (412, None));
    assert_eq!(client.delete("k", &[]).status, 200);
}

#[test]
fn conditions_hold_or_nothing_happens() {
    let (_server, mut client) = pair();
    let put =
        |client: &mut Client, headers: &[(&str, &str)], value| client.put("k", headers, value);
    assert_eq!(put(&mut client, &[("if-match", "*")], "v").status, 412);
    let first = put(&mut client, &[("if-none-match", "*")], "v");
    assert_eq!(first.status, 200);
    let tag = first.header("etag").to_owned();
    assert_eq!(client.get("/metadata?key=k").header("etag"), tag);
    let refused = put(&mut client, &[("if-none-match", "*")], "w");
    assert_eq!(
        (refused.status, refused.json()["revision"].as_u64()),
        (412, Some(first.revision()))
    );
    let second = put(&mut client, &[("if-match", &tag)], "w");
    assert_eq!(second.status, 200);
    assert!(second.revision() > first.revision());
    assert_eq!(put(&mut client, &[("if-match", &tag)], "x").status, 412);
    assert_eq!(client.delete("k", &[("if-match", &tag)]).status, 412);
    assert_eq!(client.value("k").unwrap(), "w");
    assert_eq!(client.delete("k", &[("if-match", second.header("etag"))]).status, 200);
}

#[test]
fn terms_that_cannot_be_understood_are_refused_not_ignored() {
    let (_server, mut client) = pair();
    let long = "o".repeat(257);
    for headers in [
        &[("if-match", "7")][..],
        &[("if-match", "W/\"7\"")],
        &[("if-match", "\"7\", \"8\"")],
        &[("if-match", "\"-7\"")],
        &[("if-none-match", "\"7\"")],
        &[("if-match", "*"), ("if-none-match", "*")],
        &[("te-ttl-ms", "1")],
        &[("te-ttl-ms", "-1")],
        &[("te-ttl-ms", "")],
        &[("te-ttl-ms", "86400001")],
        &[("te-owner", "")],
        &[("te-owner", "two words")],
        &[("te-owner", &long)],
    ] {
        let answer = client.put("k", headers, "v");
        assert_eq!(answer.status, 400, "{headers:?}: {}", answer.text());
        assert!(answer.json()["error"].is_string());
    }
    for target in ["/metadata?key=%FF", "/metadata?key=%", "/v1/watch?since=x", "/v1/keys?limit=x"]
    {
        assert_eq!(client.get(target).status, 400, "{target}");
    }
    let key = "k".repeat(4097);
    assert_eq!(client.get(&format!("/metadata?key={key}")).status, 400);
    assert_eq!(client.put(&key[1..], &[], "v").status, 200);
    assert_eq!(client.ask("POST", "/v1/renew", &[], b"{\"owner\":5}").status, 400);
    assert_eq!(client.renew("a", 1).status, 400);
    assert_eq!(client.renew("a b", 1000).status, 400);
}

#[test]
fn fault17_a_key_goes_with_its_owner_unless_it_is_renewed() {
    let (_server, mut client) = pair();
    let terms = |owner| [("te-owner", owner), ("te-ttl-ms", "400")];
    client.put("dead", &terms("a"), "v");
    client.put("living", &terms("b"), "v");
    client.put("plain", &[], "v");
    wait_until("the dead one's key is gone", || {
        assert_eq!(client.renew("b", 400).json(), json!({ "keys": 1 }));
        client.value("dead").is_none()
    });
    assert_eq!(client.renew("a", 400).status, 404);
    assert_eq!(client.value("living").unwrap(), "v");
    assert_eq!(client.value("plain").unwrap(), "v");
    assert_eq!(client.put("dead", &terms("c"), "w").status, 200);
}

#[test]
fn a_list_shows_keys_owners_and_times_and_can_be_continued() {
    let (_server, mut client) = pair();
    client.put("p/1", &[("te-owner", "a"), ("te-ttl-ms", "60000")], "12345");
    for key in ["p/2", "p/3", "q"] {
        client.put(key, &[], "v");
    }
    let first = client.get("/v1/keys?prefix=p/&limit=2").json();
    assert_eq!(first["more"], true);
    assert_eq!(first["keys"].as_array().unwrap().len(), 2);
    let key = &first["keys"][0];
    assert_eq!(
        (&key["key"], &key["owner"], &key["bytes"]),
        (&json!("p/1"), &json!("a"), &json!(5))
    );
    assert!((50_000..=60_000).contains(&key["expires_ms"].as_u64().unwrap()));
    assert_eq!(first["keys"][1]["owner"], json!(null));
    assert_eq!(first["keys"][1]["expires_ms"], json!(null));
    let rest = client.get("/v1/keys?prefix=p/&after=p/2").json();
    assert_eq!((rest["more"].as_bool(), &rest["keys"][0]["key"]), (Some(false), &json!("p/3")));
    assert_eq!(rest["revision"], first["revision"]);
    assert_eq!(rest["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn a_watch_waits_for_its_prefix_and_tells_what_happened() {
    let (server, mut client) = pair();
    let since = client.get("/v1/keys").json()["revision"].as_u64().unwrap();
    let address = server.address();
    let watcher = thread::spawn(move || {
        let target = format!("/v1/watch?prefix=p/&since={since}&wait_ms=20000");
        Client::to(address).get(&target).json()
    });
    wait_until("it watches", || client.get("/metrics").text().contains("te_metadata_watchers 1\n"));
    client.put("q", &[], "v");
    let put = client.put("p/1", &[], "v");
    let news = watcher.join().unwrap();
    let event = json!({ "kind": "put", "key": "p/1", "revision": put.revision() });
    assert_eq!(news, json!({ "revision": put.revision(), "events": [event], "reset": false }));
    client.delete("p/1", &[]);
    let news = client.get(&format!("/v1/watch?prefix=p/&since={}", put.revision())).json();
    assert_eq!(news["events"][0]["kind"], "delete");
    let (news, time) = timed(|| client.get("/v1/watch?wait_ms=100").json());
    assert_eq!((news["events"].as_array().unwrap().len(), &news["reset"]), (0, &json!(false)));
    assert!(time >= Duration::from_millis(90), "{time:?}");
    let news = client.get("/v1/watch?since=1&wait_ms=20000").json();
    assert_eq!(news["reset"], true, "nobody knows any more what came after 1");
}

#[test]
fn a_token_opens_everything_and_nothing_opens_without_it() {
    let token = "a-token-of-some-length";
    let server = server(|config| config.token = Some(Token::parse(token).unwrap()));
    let mut client = Client::to(server.address());
    let with = format!("Bearer {token}");
    for target in ["/metadata?key=k", "/v1/keys", "/v1/watch?wait_ms=1", "/v1/status", "/metrics"] {
        let refused = client.get(target);
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, "Bearer"),
            "{target}"
        );
        assert_eq!(refused.header("te-metadata-server"), "1");
        let wrong = client.ask("GET", target, &[("authorization", "Bearer x")], b"");
        assert_eq!(wrong.status, 401, "{target}");
        let answer = client.ask("GET", target, &[("authorization", &with)], b"");
        assert_ne!(answer.status, 401, "{target}");
    }
    assert_eq!(client.put("k", &[], "v").status, 401);
    assert_eq!(client.put("k", &[("authorization", &with)], "v").status, 200);
    assert_eq!(client.get("/health").status, 200);
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn a_restart_keeps_keys_and_revisions_and_gives_leases_one_fresh_time() {
    let folder = Folder::new("restart");
    let start = || server(|config| config.data = Some(folder.file()));
    let first = start();
    let mut client = Client::to(first.address());
    client.put("leased", &[("te-owner", "a"), ("te-ttl-ms", "1500")], "v");
    let put = client.put("plain", &[], "w");
    first.shutdown();
    let second = start();
    let mut client = Client::to(second.address());
    let plain = client.get("/metadata?key=plain");
    assert_eq!((plain.text(), plain.revision()), ("w", put.revision()));
    let leased = client.get("/metadata?key=leased");
    assert_eq!(leased.header("te-owner"), "a");
    assert!(leased.header("te-expires-ms").parse::<u64>().unwrap() > 1000, "{leased:?}");
    assert_eq!(client.put("leased", &[("te-owner", "b")], "x").status, 409);
    let news = client.get(&format!("/v1/watch?since={}&wait_ms=1", put.revision())).json();
    assert_eq!(news["reset"], false, "nothing was missed");
    wait_until("the lease ends", || client.value("leased").is_none());
    assert!(client.put("new", &[], "v").revision() > put.revision());
}

#[test]
fn a_server_without_data_is_ahead_of_its_former_self() {
    // A revision from before must not name something else: If-Match would remove a stranger's key.
    let (first, mut client) = pair();
    let old = client.put("k", &[], "v");
    first.shutdown();
    let (_second, mut client) = pair();
    let new = client.put("k", &[], "of another");
    assert!(new.revision() > old.revision());
    assert_eq!(client.delete("k", &[("if-match", old.header("etag"))]).status, 412);
    let watch = client.get(&format!("/v1/watch?since={}&wait_ms=20000", old.revision())).json();
    assert_eq!(watch["reset"], true);
}
