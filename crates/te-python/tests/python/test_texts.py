"""FB54: what a failure says names the phase, the peer and the cause; ten thousand failures are not ten thousand lines."""
import support
from support import MIB, engine_node

NATIVE = """
    import te_engine
    global engine, memory, failed
    engine = te_engine.Engine(config=None)
    memory = engine.allocate(1 << 20)
    def failed(call):
        try:
            call()
        except te_engine.EngineError as error:
            facts = {name: getattr(error, name) for name in ("code", "phase", "peer", "index", "cause", "attempt", "transport", "remote_side", "local_state", "retryable")}
            facts = {name: value if value is None or isinstance(value, (int, str, bool)) else str(value) for name, value in facts.items()}
            return [type(error).__name__, str(error), facts]
        return ["nothing was raised", "", {}]
"""


def native(**env):
    node = support.Node(name="native", **env)
    node.run(NATIVE)
    return node


def says(found, kind, peer, words):
    """The exception's class, and that its text has the peer and all words, and its fields phase and cause."""
    name, text, facts = found
    support.equal(name, kind, text)
    assert facts.get("phase"), f"no phase: {facts}"
    assert facts.get("cause"), f"no cause: {facts}"
    assert facts["phase"] in text, f"`{facts['phase']}` is not in `{text}`"
    if peer:
        support.equal(facts["peer"], peer)
        assert peer in text, f"`{peer}` is not in `{text}`"
    for word in words:
        assert word in text.lower(), f"`{word}` is not in `{text}`"


SILENT_DATA = """
    import json, socket, struct
    global ports
    hs, ds = socket.socket(), socket.socket()
    for s in (hs, ds):
        s.bind(("127.0.0.1", 0))
        s.listen(64)
    ports = [s.getsockname()[1] for s in (hs, ds)]
    name = f"127.0.0.1:{ports[0]}"
    descriptor = {"name": name, "protocol": "tcp", "tcp_data_host": data_host or "127.0.0.1", "tcp_data_port": ports[1], "tcp_proto_version": 2,
        "rdma_server_name": "", "timestamp": "", "buffers": [{"name": name, "addr": 0x700000000000, "length": 1 << 30}]}
    def read(c, n):
        data = b""
        while len(data) < n:
            more = c.recv(n - len(data))
            if not more: raise OSError
            data += more
        return data
    def handshakes():
        while True:
            c, _ = hs.accept()
            try:
                n = struct.unpack("<Q", read(c, 8))[0]
                body = read(c, n)
                answer = json.dumps(descriptor).encode() if body[0] == 1 else b'{"status":"success"}'
                c.sendall(struct.pack("<Q", len(answer) + 1) + body[:1] + answer)
            except OSError:
                pass
            c.close()
    def data():
        kept = []
        while True:
            c, _ = ds.accept()
            kept.append(c)
            read(c, 24)
    for work in (handshakes, data):
        threading.Thread(target=work, daemon=True).start()
    return name
"""


def test_fb54_fb04_a_peer_that_stops_reading():
    peer = support.Node(name="silent")
    name = peer.run(SILENT_DATA, data_host="")
    node = native(MC_TCP_PROGRESS_TIMEOUT_SEC=2)
    found = node.run("""
        region = engine.allocate(64 << 20)
        return failed(lambda: engine.open(name).write(region, 0x700000000000, timeout=20))
        """, name=name)
    says(found, "TransferError", name, [])
    assert found[2]["local_state"], found[2]
    assert found[2]["remote_side"], found[2]


def test_fb54_fb25_an_address_that_nobody_answers_at():
    peer = support.Node(name="silent")
    name = peer.run(SILENT_DATA, data_host="10.255.255.1")
    node = native(TE_TCP_CONNECT_TIMEOUT_MS=1000)
    found = node.run("return failed(lambda: engine.open(name).write(memoryview(memory)[:64], 0x700000000000, timeout=5))", name=name)
    says(found, found[0], name, ["connect", "10.255.255.1"])
    assert found[0] in ("TransferError", "TransferTimeout"), found


def test_fb54_fb26_a_peer_that_left():
    target = engine_node(name="target", size=MIB)
    node = native()
    node.run("""
        global segment
        segment = engine.open(host)
        segment.write(memoryview(memory)[:64], at)
        """, host=target.host, at=target.addr)
    target.kill()
    found = node.run("return failed(lambda: segment.write(memoryview(memory)[:64], at, timeout=5))", at=target.addr)
    says(found, found[0], target.host, [])
    assert found[0] in ("TransferError", "TransferTimeout"), found
    found = node.run("return failed(lambda: engine.open('127.0.0.1:1'))")
    says(found, "OpenError", "127.0.0.1:1", ["refused"])


def test_fb54_fb33_buffers_that_overlap_or_are_empty():
    node = native()
    found = node.run("""
        return [failed(lambda: engine.register((memory.address + 64, 4096))), failed(lambda: engine.register((0, 4096))), failed(lambda: engine.register(bytearray(0)))]
        """)
    says(found[0], "RegisterError", None, ["overlap"])
    support.equal([one[0] for one in found], ["RegisterError"] * 3)
    support.equal(found[0][2]["code"], -7)


def test_fb54_an_address_outside_every_buffer_names_the_request():
    target = engine_node(name="target", size=MIB)
    node = native()
    found = node.run("""
        segment = engine.open(host)
        there = [at] * 7 + [0x1000]
        return failed(lambda: segment.write_many(memory, [0] * 8, there, 64))
        """, host=target.host, at=target.addr)
    says(found, "TransferError", target.host, [])
    support.equal(found[2]["index"], 7)


def test_fb54_the_calls_that_return_codes_tell_the_same():
    node = engine_node(name="caller", size=MIB)
    target = engine_node(name="target", size=MIB)
    texts = node.run("""
        import te_engine
        texts = []
        for call in (
                lambda: e.transfer_sync_write(host, m.addr, 0x1000, 64), lambda: e.batch_transfer_sync_write(host, [m.addr], [0x1000], [64]),
                lambda: e.transfer_sync_write("127.0.0.1:1", m.addr, 64, 64), lambda: e.batch_transfer_sync_write(host, [1, 2], [3], [4]),
                lambda: e.register_memory(m.addr, 64), lambda: e.send_probe("127.0.0.1:1"), lambda: e.unregister_memory(5)):
            code = call()
            assert code < 0, code
            failure = te_engine.last_error()
            texts.append([str(failure), failure.phase])
        return texts
        """, host=target.host)
    for text, phase in texts:
        assert phase and phase in text, (text, phase)
    assert target.host in texts[0][0] and target.host in texts[1][0], texts
    assert "127.0.0.1:1" in texts[2][0], texts[2]


def test_fb54_ten_thousand_failures_are_few_lines_with_a_count():
    target = engine_node(name="target", size=MIB)
    node = engine_node(name="caller", size=MIB, GLOG_minloglevel=None)
    before = len(node.errors().splitlines())
    codes = node.run("""
        n = 10000
        codes = [e.batch_transfer_sync_write(host, [m.addr] * n, [0x1000] * n, [16] * n)]
        codes += [e.transfer_sync_write(host, m.addr, 0x1000, 16) for _ in range(500)]
        return sorted(set(codes))
        """, host=target.host)
    support.equal(codes, [-1])
    lines = node.errors().splitlines()[before:]
    print(f"row 10 500 failed requests: {len(lines)} lines")
    assert 1 <= len(lines) <= 20, "\n".join(lines[:30])
    assert any(word.isdigit() for line in lines for word in line.replace(",", " ").split()), lines
