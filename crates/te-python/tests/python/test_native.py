"""The native calls: what they take as memory, what they raise, how they are awaited, called back and cancelled.

Each test is a program of its own, with two engines that reach each other over TCP or, where it matters, a process more.
"""
import support
from support import MIB, engine_node

PRELUDE = """
import array, asyncio, ctypes, gc, os, pickle, signal, sys, threading, time, weakref
import numpy as np
import te_engine
from te_engine import Engine

SIZE = 1 << 20
a, b = Engine(), Engine()
ours, theirs = a.allocate(SIZE), b.allocate(SIZE)
mine, yours = np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8)
segment = a.open(b.name)
at = theirs.address

def pattern(seed, n=SIZE):
    return np.random.default_rng(seed).integers(0, 256, n, dtype=np.uint8)

def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
        return error
    raise AssertionError(f"no {kind.__name__}")
"""

END = """
del mine, yours
a.close(); b.close()
print("well")
"""


def well(source, timeout=60, **env):
    import textwrap
    done = support.script(PRELUDE + textwrap.dedent(source) + END, timeout=timeout, **env)
    assert done.returncode == 0 and done.stdout.strip().endswith("well"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-2500:]}"
    assert "panicked" not in done.stderr, done.stderr
    return done


def test_bytes_go_both_ways():
    well("""
        mine[:] = pattern(1)
        assert segment.write(ours, at) == SIZE and np.array_equal(mine, yours)
        yours[:] = pattern(2)
        assert segment.read(ours, at) == SIZE and np.array_equal(mine, yours)
        assert segment.address == at and segment.name == b.name and segment.transport
        assert (at, SIZE) == segment.buffers()[0][:2]
        """)


def test_memory_may_be_anything_with_the_buffer_protocol():
    well("""
        data = pattern(3, 4096)
        for local in (data.tobytes(), bytearray(data), memoryview(data), data, array.array("Q", data.tobytes()), data.view(np.float32),
                      data.reshape(64, 64), (ctypes.c_char * 4096).from_buffer_copy(data.tobytes()), np.asfortranarray(data.reshape(64, 64).T)):
            yours[:] = 0
            assert segment.write(local, at) == 4096, type(local)
            assert bytes(yours[:4096]) == bytes(data), type(local)
        for local in (bytearray(4096), np.zeros(4096, np.uint8), np.zeros((32, 32), np.uint32), array.array("B", bytes(4096)), memoryview(bytearray(8192))[100:4196]):
            assert segment.read(local, at) == 4096
            assert bytes(memoryview(local).cast("B")) == bytes(data) if not isinstance(local, np.ndarray) else local.tobytes() == bytes(data)
        """)


def test_memory_may_be_an_address_and_a_length():
    well("""
        data = pattern(4, 4096)
        assert segment.write((data.ctypes.data, 4096), at) == 4096 and np.array_equal(yours[:4096], data)
        region = a.register((data.ctypes.data, 4096))
        assert region.address == data.ctypes.data and len(region) == region.length == 4096 and region.registered
        assert segment.write(region, at + 4096) == 4096 and np.array_equal(yours[4096:8192], data)
        region.unregister()
        assert not region.registered
        region.unregister()
        """)


DLPACK = """
class Tensor:
    'A tensor of no library: it says where it lies by DLPack, and nothing else.'
    alive = 0
    def __init__(self, data, device=1, strides=None):
        self.data, self.device = data, device
        class Managed(ctypes.Structure):
            pass
        self.deleter_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        Managed._fields_ = [
            ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
        self.managed_type = Managed
        self.shape = (ctypes.c_int64 * 2)(2, len(data) // 2)
        self.strides = (ctypes.c_int64 * 2)(*strides) if strides else None
    def __dlpack_device__(self):
        return (self.device, 0)
    def __dlpack__(self, **_):
        m = self.managed_type()
        m.data, m.device, m.ndim = self.data.ctypes.data, self.device, 2
        m.code, m.bits, m.lanes = 1, 8, 1
        m.shape = ctypes.addressof(self.shape)
        m.strides = ctypes.addressof(self.strides) if self.strides else None
        def delete(_):
            Tensor.alive -= 1
        self.keep = (m, self.deleter_type(delete))
        m.deleter = ctypes.cast(self.keep[1], ctypes.c_void_p)
        Tensor.alive += 1
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dltensor"
        return make(ctypes.addressof(m), self.name, None)
"""


def test_memory_may_be_a_tensor_by_dlpack():
    well(DLPACK + """
data = pattern(5, 4096)
tensor = Tensor(data)
assert segment.write(tensor, at) == 4096 and np.array_equal(yours[:4096], data)
assert segment.write(Tensor(data, strides=(2048, 1)), at) == 4096
raises(ValueError, lambda: segment.write(Tensor(data, strides=(4096, 2)), at))
yours[:4096] = pattern(6, 4096)
assert segment.read(tensor, at) == 4096 and np.array_equal(yours[:4096], data)
region = a.register(tensor)
assert region.address == data.ctypes.data and len(region) == 4096
region.unregister()
""")


def test_memory_of_a_gpu_is_a_named_error():
    well(DLPACK + """
class Cuda:
    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}
for local in (Tensor(pattern(7, 64), device=2), Tensor(pattern(7, 64), device=10), Cuda()):
    for call in (lambda: segment.write(local, at), lambda: segment.submit_read(local, at), lambda: a.register(local)):
        error = raises(te_engine.DeviceMemoryError, call, "copy")
        assert isinstance(error, te_engine.EngineError)
""")


def test_what_is_no_memory_is_a_type_error_or_a_value_error():
    well("""
        for local in (5, "text", None, object(), [1, 2], {}):
            raises(TypeError, lambda: segment.write(local, at))
        raises(ValueError, lambda: segment.write(pattern(8, 4096)[::2], at))
        raises(ValueError, lambda: segment.read(b"bytes are not written", at))
        readonly = pattern(8, 64); readonly.flags.writeable = False
        raises(ValueError, lambda: segment.read(readonly, at))
        raises(TypeError, lambda: segment.write(ours, -1))
        raises(TypeError, lambda: segment.write(ours, at, limit=5))
        raises(ValueError, lambda: segment.write(ours, at, timeout=-1))
        """)


def test_many_pieces_by_arrays_and_lists():
    well("""
        n, k = 10_000, 64
        mine[:] = pattern(9)
        order = np.random.default_rng(1).permutation(n)
        for kind in (np.uint64, np.int64):
            yours[:] = 0
            moved = segment.write_many(ours, (np.arange(n) * k).astype(kind), (order * k + at).astype(np.uint64), np.full(n, k, kind))
            assert moved == n * k
            want = np.zeros((n, k), np.uint8); want[order] = mine[:n * k].reshape(n, k)
            assert np.array_equal(yours[:n * k].reshape(n, k), want)
        mine[:] = 0
        assert segment.read_many(None, [ours.address, ours.address + 100], [at, at + 100], [100, 50]) == 150
        assert np.array_equal(mine[:150], yours[:150]) and not mine[150:].any()
        assert segment.write_many(ours, [0, 64], [at, at + 64], 64) == 128
        assert segment.write_many(ours, [], [], 64) == 0
        raises(ValueError, lambda: segment.write_many(ours, [0], [at, at], 64))
        raises(IndexError, lambda: segment.write_many(ours, [0, SIZE - 63], [at, at], 64), "1")
        transfer = segment.submit_write_many(ours, np.arange(n, dtype=np.uint64) * k, np.arange(n, dtype=np.uint64) * k + np.uint64(at), k)
        assert transfer.wait(20) == n * k and transfer.state == "completed" and transfer.done and transfer.bytes == n * k
        """)


def test_a_failure_has_its_fields():
    well("""
        error = raises(te_engine.TransferError, lambda: segment.write(ours, 4096, timeout=5))
        assert error.peer == b.name and error.code < 0 and error.index == 0, vars(error)
        assert error.local_state == "free" and error.remote_side and error.phase and error.cause and error.kind, vars(error)
        assert isinstance(error.retryable, bool) and error.attempt >= 0
        for word in (error.peer, error.phase):
            assert word in str(error), str(error)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
        error = raises(te_engine.OpenError, lambda: a.open("127.0.0.1:1"), "127.0.0.1:1")
        assert error.phase == "open" and error.peer == "127.0.0.1:1"
        error = raises(te_engine.RegisterError, lambda: a.register((ours.address + 64, 64)))
        assert error.code == -7
        raises(te_engine.BuildError, lambda: Engine(metadata="bogus://127.0.0.1:1"))
        raises(te_engine.PeerError, lambda: a.probe("127.0.0.1:1"))
        for kind in (te_engine.BusyError, te_engine.TransferTimeout, te_engine.ForkedError, te_engine.ClosedError):
            assert issubclass(kind, te_engine.EngineError)
        assert issubclass(te_engine.TransferTimeout, TimeoutError)
        """)


def test_context_managers_end_what_they_began():
    well("""
        with Engine() as c:
            region = c.allocate(4096)
            with c.register(np.zeros(4096, np.uint8)) as other:
                assert other.registered
            assert not other.registered
            name = c.name
            assert a.probe(name) > 0
        raises(te_engine.ClosedError, lambda: c.allocate(4096))
        raises(te_engine.ClosedError, lambda: c.open(b.name))
        raises(te_engine.OpenError, lambda: a.open(name))
        assert bytes(region)[:4] == b"\\0\\0\\0\\0"
        report = c.close()
        assert report["open_tasks"] == 0 and report["joined"] and report["kept_bytes"] == 0, report
        """)


def test_registered_memory_is_kept_until_it_is_unregistered():
    well("""
        class Owner(bytearray):
            pass
        data = Owner(1 << 16)
        gone = weakref.ref(data)
        region = a.register(data)
        address = region.address
        del data; gc.collect()
        assert gone() is not None
        assert segment.write((address, 64), at) == 64
        region.unregister()
        del region; gc.collect()
        assert gone() is None
        """)


def test_notifications_and_what_an_engine_says_of_itself():
    well("""
        import json
        assert b.notifications() == []
        segment.write(memoryview(ours)[:64], at, notify=("from", "text é"))
        end = time.monotonic() + 5
        got = []
        while not got and time.monotonic() < end:
            got = b.notifications()
        assert got == [("from", "text é")], got
        a.notify(b.name, "plain", "")
        while len(got) < 2 and time.monotonic() < end:
            got += b.notifications()
        assert got[1] == ("plain", "")
        assert a.probe(b.name) < 2 and a.port != b.port and a.name.endswith(str(a.port))
        assert isinstance(json.loads(a.topology()), dict) and "tcp" in a.transports
        assert a.stats()["bytes"] >= 64 and a.quarantined_bytes == 0
        assert segment.refresh()
        assert te_engine.last_error() is None or "text" in te_engine.last_error()
        for thing in (a, ours, segment):
            assert type(thing).__name__ in repr(thing)
        """)


def test_a_transfer_is_awaited():
    well("""
        async def main():
            mine[:] = pattern(10)
            assert await segment.submit_write(ours, at) == SIZE
            assert np.array_equal(mine, yours)
            moved = await asyncio.gather(*(segment.submit_read(memoryview(ours)[i * 64:(i + 1) * 64], at + i * 64) for i in range(500)))
            assert moved == [64] * 500
            transfer = segment.submit_write(ours, at)
            assert transfer.wait(10) == SIZE and await transfer == SIZE and await transfer == SIZE
            try:
                await segment.submit_write(ours, 4096, timeout=5)
            except te_engine.TransferError as error:
                assert error.peer == b.name
            else:
                raise AssertionError("no error")
            assert await asyncio.wait_for(segment.submit_write(ours, at), 10) == SIZE
        asyncio.run(main())
        """)


def test_awaiting_sleeps_and_the_loop_goes_on():
    """The event loop ticks while transfers run, and no thread polls."""
    target = engine_node(name="target", size=256 * MIB)
    done = support.script(PRELUDE + f"""
big = a.allocate(256 << 20)
there = a.open({target.host!r})
async def main():
    ticks = []
    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.001)
    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(0.01)
    for _ in range(3):
        assert await there.submit_write(big, {target.addr}) == 256 << 20
    ticker.cancel()
    gaps = [y - x for x, y in zip(ticks, ticks[1:])]
    assert len(ticks) > 20 and max(gaps) < 0.25, (len(ticks), max(gaps))
    print(f"ticks {{len(ticks)}}, longest gap {{max(gaps) * 1000:.1f}} ms")
asyncio.run(main())
""" + END)
    assert done.returncode == 0, done.stderr[-2000:]
    print("row asyncio beside 3 × 256 MiB:", done.stdout.splitlines()[0])


CANCEL = """
class Held(bytearray):
    pass
big = Held(128 << 20)
gone = weakref.ref(big)
async def main():
    global big
    there = a.open(NAME)
    if IS_STILL:
        os.kill(PID, signal.SIGSTOP)
        threading.Timer(3, os.kill, (PID, signal.SIGCONT)).start()
    task = asyncio.ensure_future(waits(there.submit_write(big, ADDRESS)))
    await asyncio.sleep(0.02)
    begun = time.monotonic()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    seconds = time.monotonic() - begun
    assert seconds < 1, f"cancelling took {seconds} s"
    del big
    gc.collect()
    kept = gone() is not None
    print("kept" if kept else "free")
    end = time.monotonic() + 30
    while gone() is not None and time.monotonic() < end:
        await asyncio.sleep(0.05)
        a.stats()
        there2 = segment.write(memoryview(ours)[:16], at)
        gc.collect()
    assert gone() is None, "the buffer of a cancelled transfer is kept for ever"
async def waits(transfer):
    return await transfer
asyncio.run(main())
"""


def cancelled(target, stop):
    source = CANCEL.replace("NAME", repr(target.host)).replace("ADDRESS", str(target.addr)).replace("PID", str(target.pid)).replace("IS_STILL", str(stop))
    done = support.script(PRELUDE + source + END, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr[-2500:]
    print("row cancelled:", ", ".join(done.stdout.split()[:-1]))


def test_cancelling_a_task_cancels_the_transfer_and_frees_its_buffer():
    cancelled(engine_node(name="target", size=128 * MIB), False)


@support.limit(90)
def test_the_buffer_of_a_cancelled_transfer_is_kept_until_this_side_is_quiet():
    """With a target that is stopped in the middle and goes on after three seconds."""
    cancelled(engine_node(name="target", size=128 * MIB), True)


def test_wait_cancel_and_timeout():
    target = support.Node(name="silent")
    from test_texts import SILENT_DATA
    name = target.run(SILENT_DATA, data_host="")
    well(f"""
        big = a.allocate(64 << 20)
        there = a.open({name!r})
        transfer = there.submit_write(big, 0x700000000000)
        begun = time.monotonic()
        error = raises(te_engine.TransferTimeout, lambda: transfer.wait(0.2))
        assert 0.15 < time.monotonic() - begun < 2 and error.local_state == "in use", vars(error)
        assert not transfer.done and transfer.state == "waiting"
        transfer.cancel()
        error = raises(te_engine.TransferError, lambda: transfer.wait(15))
        assert transfer.done and transfer.state == "failed" and error.local_state in ("free", "quarantined"), vars(error)
        begun = time.monotonic()
        error = raises(te_engine.TransferError, lambda: there.write(memoryview(big)[:32 << 20], 0x700000000000, timeout=1))
        assert time.monotonic() - begun < 10
        assert segment.write(memoryview(ours)[:64], at) == 64
        """)


def test_callbacks_run_once_each_in_another_thread():
    well("""
        seen, threads, all_there = [], set(), threading.Event()
        def note(transfer):
            threads.add(threading.get_ident())
            seen.append((transfer.done, transfer.bytes))
            if len(seen) == 100:
                all_there.set()
        for i in range(100):
            segment.submit_write(memoryview(ours)[i * 64:(i + 1) * 64], at).add_done_callback(note)
        assert all_there.wait(20), len(seen)
        assert seen == [(True, 64)] * 100 and threading.get_ident() not in threads
        transfer = segment.submit_write(ours, at)
        transfer.wait(10)
        late = threading.Event()
        transfer.add_done_callback(lambda t: late.set())
        assert late.wait(10)
        failed = []
        there = threading.Event()
        bad = segment.submit_write(ours, 4096, timeout=5)
        bad.add_done_callback(lambda t: (failed.append(t.state), there.set()))
        assert there.wait(10) and failed == ["failed"]
        """)


def test_a_callback_may_use_the_engine_and_raise():
    done = well("""
        chained = threading.Event()
        def again(transfer, left=20):
            if left == 0:
                chained.set()
                raise ZeroDivisionError("meant")
            segment.submit_write(memoryview(ours)[:64], at).add_done_callback(lambda t: again(t, left - 1))
        again(None)
        assert chained.wait(20)
        after = threading.Event()
        segment.submit_write(memoryview(ours)[:64], at).add_done_callback(lambda t: after.set())
        assert after.wait(10)
        """)
    assert "ZeroDivisionError" in done.stderr, done.stderr


def test_threads_share_an_engine():
    well("""
        failures = []
        def work(rank):
            try:
                own = a.allocate(64 << 10)
                view = np.frombuffer(own, np.uint8)
                place = at + rank * (64 << 10)
                for i in range(30):
                    view[:] = pattern(rank * 1000 + i, 64 << 10)
                    assert segment.write(own, place) == 64 << 10
                    back = bytearray(64 << 10)
                    assert segment.read(back, place) == 64 << 10
                    assert bytes(back) == view.tobytes(), (rank, i)
            except BaseException as error:
                failures.append(repr(error))
        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not failures, failures
        """)


def test_checked_writes_compare_sums():
    well("""
        mine[:] = pattern(11)
        assert segment.write(ours, at, checked=True) == SIZE and np.array_equal(mine, yours)
        assert segment.read(ours, at, checked=True) == SIZE
        """)
