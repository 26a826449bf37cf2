"""FB52: in a forked child the parent's engine says what is wrong, within a second, and an engine of its own works; the
parent's transfers go on, byte for byte."""
import support
from support import MIB, engine_node

CHILD = """
    import pickle
    read, write = os.pipe()
    m.fill(71)
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        found = {}
        try:
            t = time.monotonic()
            found["codes"] = [
                e.transfer_sync_write(host, m.addr, at, 4096), e.batch_transfer_sync_read(host, [m.addr], [at], [4096]),
                e.register_memory(m.addr, 4096), e.transfer_submit_write(host, m.addr, at, 4096)]
            found["cause"] = cause()
            found["seconds"] = time.monotonic() - t
            own = TransferEngine()
            found["own"] = own.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
            k = Memory(1 << 20)
            k.fill(72)
            found["own"] |= own.register_memory(k.addr, k.size)
            found["own"] |= own.transfer_sync_write(host, k.addr, at + (32 << 20), k.size)
            found["own"] |= own.transfer_sync_write(f"127.0.0.1:{own.get_rpc_port()}", k.addr, k.addr + 4096, 4096)
        except BaseException as error:
            found["error"] = repr(error)
        os.write(write, pickle.dumps(found))
        os._exit(0)
    codes = [e.transfer_sync_write(host, m.addr, at, 32 << 20) for _ in range(5)]
    os.close(write)
    found = pickle.loads(os.read(read, 1 << 16))
    found["status"] = os.waitpid(pid, 0)[1]
    found["parent"] = codes
    return found
"""

CAUSE = """
    global cause
    def cause():
        import te_engine
        return str(te_engine.last_error())
"""


def test_fb52_a_forked_child_is_told_and_makes_its_own_engine():
    parent, target = engine_node(name="parent", size=64 * MIB), engine_node(name="target", size=64 * MIB)
    parent.run(CAUSE)
    found = parent.run(CHILD, host=target.host, at=target.addr)
    assert "error" not in found, found["error"]
    assert all(code < 0 for code in found["codes"][:3]) and found["codes"][3] == 0, found["codes"]
    assert "fork" in found["cause"], found["cause"]
    assert found["seconds"] < 1, found["seconds"]
    support.equal((found["own"], found["status"], found["parent"]), (0, 0, [0] * 5))
    support.equal(target.run("return [m.holds(71, 0, 32 << 20), m.holds(72, 32 << 20, 1 << 20)]"), [None, None])


def test_fb52_the_native_engine_raises_a_named_error_in_the_child():
    done = support.script("""
import os, sys, time, te_engine
with te_engine.Engine() as engine:
    memory = engine.allocate(1 << 20)
    segment = engine.open(engine.name)
    pid = os.fork()
    if pid == 0:
        begun = time.monotonic()
        named = 0
        for call in (lambda: segment.write(memoryview(memory)[:16], memory.address), lambda: engine.allocate(4096), lambda: engine.open("127.0.0.1:9")):
            try:
                call()
            except te_engine.ForkedError as error:
                named += "fork" in str(error)
        with te_engine.Engine() as own:
            own_memory = own.allocate(4096)
        os._exit(0 if named == 3 and time.monotonic() - begun < 5 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert segment.write(memoryview(memory)[:16], memory.address + 4096) == 16
""")
    support.equal(done.returncode, 0, done.stderr)


def test_fb52_multiprocessing_in_every_way():
    for way in ("fork", "spawn", "forkserver"):
        folder = support.SCRATCH / f"mp-{way}"
        folder.mkdir()
        (folder / "work.py").write_text("""
import multiprocessing, sys
import te_engine

def child(queue):
    with te_engine.Engine() as engine:
        memory = engine.allocate(1 << 20)
        queue.put(engine.open(engine.name).write(memoryview(memory)[:4096], memory.address + 8192))

if __name__ == "__main__":
    with te_engine.Engine() as engine:
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        workers = [context.Process(target=child, args=(queue,)) for _ in range(2)]
        for worker in workers: worker.start()
        assert [queue.get(timeout=30) for _ in workers] == [4096, 4096]
        for worker in workers: worker.join(30)
        assert [worker.exitcode for worker in workers] == [0, 0]
""")
        done = support.program([folder / "work.py", way])
        support.equal(done.returncode, 0, f"{way}: {done.stderr[-800:]}")
