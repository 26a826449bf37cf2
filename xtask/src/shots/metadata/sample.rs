//! What the servers of the pictures hold.

use serde_json::json;

use super::Server;

const GIB: u64 = 1 << 30;

/// A small cluster: engines of ours, Mooncake's engines without an owner, and some odd ends.
pub(super) fn few(server: &Server) -> anyhow::Result<()> {
    let tcp = json!("tcp");
    server.segment("10.20.0.11:15001", &tcp, &[4 * GIB], Some(("8f2c9a4e61d07b35", 110_000)))?;
    server.segment(
        "10.20.0.12:15001",
        &tcp,
        &[2 * GIB, 2 * GIB, 512],
        Some(("03be77f2c4519dd8", 3_000_000)),
    )?;
    let rdma = json!("rdma");
    server.segment(
        "prefill-0",
        &rdma,
        &vec![16 * GIB; 40],
        Some(("c0ffee0011223344", 3_000_000)),
    )?;
    server.segment("decode-0", &rdma, &[80 * GIB + 4096; 8], None)?;
    server.segment("storage-0", &json!(["rdma", "tcp"]), &[1 << 44], None)?;
    server.segment("idle-engine", &tcp, &[], Some(("5512aa90e7b3c681", 12_000)))?;
    in_parts(server)?;
    server.put(
        "mooncake/east/ram/node-a",
        None,
        r#"{"protocol":"tcp","buffers":[{"length":4096}]}"#,
    )?;
    server.put(
        "mooncake/rpc_meta/left-behind",
        None,
        r#"{"ip_or_host_name":"10.20.0.99","rpc_port":15999}"#,
    )?;
    server.put("mooncake/settings", None, r#"{"a":1}"#)
}

/// A segment with too many buffers for one record, and a part whose segment is gone.
fn in_parts(server: &Server) -> anyhow::Result<()> {
    let chunks = json!({ "total": 3, "chunks": [{ "count": 2, "digest": "9c51d0e7a2b48f36" }] });
    let main = json!({
        "buffers": [{ "addr": 1, "length": GIB, "name": "cpu:0" }],
        "protocol": "tcp",
        "te": { "extensions": { "buffer_chunks": chunks } },
    });
    server.put("mooncake/ram/large-0", None, &main.to_string())?;
    let chunk = json!({ "buffers": [{ "addr": 2, "length": GIB }, { "addr": 3, "length": GIB }] });
    server.put("mooncake/te_chunk/9c51d0e7a2b48f36/large-0", None, &chunk.to_string())?;
    server.put("mooncake/te_chunk/0123456789abcdef/nobody", None, &chunk.to_string())
}

/// A thousand segments.
pub(super) fn many(server: &Server) -> anyhow::Result<()> {
    (0..1000_u64).try_for_each(|n| {
        let protocol = if n % 3 == 0 { "rdma" } else { "tcp" };
        let name = format!("node-{n:04}.cluster.example:15001");
        let buffers = vec![(n % 17 + 1) * GIB; usize::try_from(n % 5 + 1)?];
        let value = json!({
            "buffers": buffers.iter().map(|l| json!({ "addr": 1, "length": l, "name": "x" })).collect::<Vec<_>>(),
            "name": name,
            "protocol": protocol,
        });
        let owner = format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        server.put(&format!("mooncake/ram/{name}"), Some((&owner, 3_000_000)), &value.to_string())
    })
}

/// Names and values that somebody made to break a page.
pub(super) fn hostile(server: &Server) -> anyhow::Result<()> {
    let tcp = json!("tcp");
    let owner = "an-owner-with-a-very-long-name-".repeat(8);
    server.segment(
        &"a-name-without-any-place-to-break".repeat(20),
        &tcp,
        &[GIB],
        Some((&owner, 3_000_000)),
    )?;
    server.segment("<script>alert(1)</script><img src=x onerror=alert(2)>", &tcp, &[1], None)?;
    server.segment(
        "{{7*7}} ${7*7} <!-- --> &amp; \"'",
        &json!("<b>tcp</b>"),
        &[u64::MAX; 3],
        None,
    )?;
    server.segment(
        "turned \u{202e}around\u{202c}, hidden \u{200b}\u{0}, \u{1b}[31mred",
        &tcp,
        &[1],
        None,
    )?;
    server.segment(
        "多段内存 сегмент セグメント مقطع 🚀",
        &json!("a-protocol-whose-name-is-far-too-long-for-any-column"),
        &[1],
        None,
    )?;
    server.segment("many\nlines\nin\na\nname", &tcp, &[0], None)?;
    server.put("mooncake/ram/not-json", None, "\u{1}\u{2} not JSON")?;
    server.put("mooncake/ram/empty", None, "")?;
    server.put(
        "mooncake/ram/wrong-types",
        None,
        r#"{"protocol":"tcp","buffers":[{"length":"long"}]}"#,
    )?;
    server.put("mooncake/ram/deep", None, &"[".repeat(100_000))?;
    server.put(&"k/".repeat(900), None, "{}")?;
    server.put(" ", None, "{}").or_else(|_| server.put(" x ", None, "{}"))
}
