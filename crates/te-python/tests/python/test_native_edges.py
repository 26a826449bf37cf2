"""The native calls with input that is wrong, read-only, huge or of another byte order, and what objects leave behind.

Each test is a program of its own, with the prelude of test_native.py.
"""
import support
from support import MIB
from test_native import DLPACK, PRELUDE, well

OBJECTS = """
def free(data):
    'Whether nothing holds the buffer of a bytearray.'
    try:
        data.append(1)
    except BufferError:
        return False
    data.pop()
    return True

def soon(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)

def first(data):
    return ctypes.addressof(ctypes.c_char.from_buffer(data))

def threads():
    return len(os.listdir("/proc/self/task"))
"""

# A peer that can be stopped, so that transfers to it stay under way.
STILL = """
import subprocess
child = subprocess.Popen([sys.executable, "-B", "-c", '''
import ctypes, signal, sys, te_engine
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
engine = te_engine.Engine(); region = engine.allocate(1 << 26)
print(engine.name, region.address, flush=True)
sys.stdin.read()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
name, address = child.stdout.readline().split()
there, address = a.open(name), int(address)
there.write(memoryview(ours)[:64], address)
def end():
    os.kill(child.pid, signal.SIGCONT)
    child.kill()
    child.wait()
"""


def test_each_region_gives_back_what_it_keeps_itself():
    well(OBJECTS + """
data = bytearray(8192)
place = first(data); gc.collect()
by_address, by_owner = a.register((place, 8192)), a.register(data)
del by_owner; gc.collect()
by_address.unregister()
assert not free(data), "memory that is registered is free to move"
a.unregister(place)
assert free(data)
kept, again = a.register(data), a.register(data)
place = kept.address
a.unregister(place)
del kept, again; gc.collect()
assert not free(data)
a.unregister(place)
assert free(data)
""")


def test_peers_cannot_write_memory_that_is_read_only():
    well("""
readonly = pattern(1, 4096); readonly.flags.writeable = False
constant = bytes(range(256)) * 16
for local in (constant, readonly, memoryview(bytearray(constant)).toreadonly()):
    held = bytes(local)
    with b.register(local) as region:
        for engine in (a, b):
            owner = engine.open(b.name)
            owner.refresh()
            error = raises(te_engine.TransferError, lambda: owner.write(b"X" * 100, region.address, timeout=5))
            assert error.remote_side in ("untouched", "settled"), vars(error)
            back = bytearray(4096)
            assert owner.read(back, region.address) == 4096 and bytes(back) == held
        raises(ValueError, lambda: segment.read(region, at))
    assert bytes(local) == held
with b.register(bytearray(constant)) as region:
    assert a.open(b.name).write(b"X" * 100, region.address) == 100
""")


def test_a_tensor_that_dlpack_calls_read_only_is_not_written():
    well(DLPACK + """
class Told(Tensor):
    'With the capsule of DLPack 1, which has flags.'
    def __dlpack__(self, *, max_version=None):
        assert max_version is not None and max_version[0] >= 1
        class Managed(ctypes.Structure):
            _fields_ = [
                ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]
        m = Managed(1, 0, None, None, self.flags, self.data.ctypes.data, self.device, 0, 2, self.code, 8, 1, ctypes.addressof(self.shape), None, 0)
        self.keep = m
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dltensor_versioned"
        return make(ctypes.addressof(m), self.name, None)
    flags, code = 0, 1
data = pattern(2, 4096)
tensor = Told(data)
assert segment.write(tensor, at) == 4096 and np.array_equal(yours[:4096], data)
assert segment.read(tensor, at) == 4096
tensor.flags = 1
raises(ValueError, lambda: segment.read(tensor, at), "read-only")
with b.register(tensor) as region:
    raises(te_engine.TransferError, lambda: a.open(b.name).write(b"X" * 100, region.address, timeout=5))
    assert a.open(b.name).read(bytearray(4096), region.address) == 4096
assert np.array_equal(data, pattern(2, 4096))
tensor.code = 3
raises(TypeError, lambda: segment.write(tensor, at), "objects")
""")


def test_pointers_to_objects_are_no_bytes():
    well("""
objects = np.array([object(), "text"], dtype=object)
fields = np.zeros(4, dtype=[("O", "u8"), ("b", "u8")])
inner = np.zeros(4, dtype=[("a", "u8"), ("b", object)])
class Told:
    def __init__(self, array): self.array, self.__array_interface__ = array, array.__array_interface__
for local in (objects, memoryview(objects), inner, (ctypes.py_object * 4)(*"abcd"), Told(objects), Told(inner)):
    for call in (lambda: segment.read(local, at), lambda: segment.write(local, at), lambda: a.register(local)):
        raises(TypeError, call, "objects")
assert segment.read(fields, at) == 64
""")


def test_lists_that_say_they_are_huge_are_an_error():
    well("""
import te_engine.compat
class Liar:
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i >= 3: raise IndexError
        return 0
import collections.abc
collections.abc.Sequence.register(Liar)
wide = np.broadcast_to(np.uint64(1), (1 << 42,))
c = te_engine.compat.TransferEngine()
for huge in (range(1 << 30), range(1 << 42), range(1 << 62), Liar(1 << 42), Liar(1 << 62), wide):
    raises(ValueError, lambda: segment.write_many(None, huge, huge, 1), "16777216")
    raises(ValueError, lambda: segment.write_many(None, [0], [at], huge), "16777216")
    raises(ValueError, lambda: c.batch_register_memory(huge, huge), "16777216")
raises(ValueError, lambda: segment.write_many(None, Liar(1), [at], 1))
raises((TypeError, ValueError), lambda: Engine(nics=range(1 << 42)))
raises(IndexError, lambda: segment.write_many((2**64 - 10, 2**64 - 1), [100], [at], [1]), "piece 0")
class Told:
    __array_interface__ = {"shape": Liar(1 << 62), "typestr": "|u1", "data": (4096, False), "version": 3}
raises(TypeError, lambda: segment.write(Told(), at))
""", timeout=30)


def test_memory_that_is_not_there_is_not_made_to_be_read():
    well("""
import te_engine.compat
e = te_engine.compat.TransferEngine()
assert e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10
before = peak()
raises(te_engine.EngineError, lambda: e.read_bytes_from_buffer(4096, 3 << 29))
assert peak() < before + 64, (before, peak())
assert e.read_bytes_from_buffer(ours.address, 64) == bytes(64)
assert e.read_bytes_from_buffer(ours.address, 0) == b""
""")


def test_numbers_of_the_other_byte_order_are_refused():
    well("""
swapped = np.array([0, 64], dtype=">u8")
raises(TypeError, lambda: segment.write_many(ours, swapped, [at, at + 64], 16))
raises(TypeError, lambda: segment.write_many(ours, [0, 64], np.array([at, at + 64], dtype=">i8"), 16))
raises(TypeError, lambda: segment.write_many(ours, [0], [at], np.array([16 << 56], dtype=">u8")))
raises(TypeError, lambda: segment.write_many(ours, np.zeros(1, "f8"), [at], 16))
raises(TypeError, lambda: segment.write_many(ours, np.zeros(1, "u4"), [at], 16))
for kind in ("<u8", "=i8", "u8", "q", "Q", "l", "L"):
    assert segment.write_many(ours, np.array([0, 64], dtype=kind), np.array([at, at + 64], dtype=kind), 16) == 32
for kind in "QqLl":
    assert segment.write_many(ours, array.array(kind, [0, 64]), array.array(kind, [at, at + 64]), 16) == 32
""")


def test_an_array_interface_is_read_for_what_it_says():
    well("""
class Told:
    def __init__(self, array): self.array, self.__array_interface__ = array, array.__array_interface__
for array, n in ((np.array(["abcdefgh"]), 32), (np.array([b"abcdefgh"]), 8), (np.zeros(4, "c16"), 64), (np.zeros(4, "?"), 4),
                 (np.zeros(4, "V3"), 12), (np.zeros(3, ">i2"), 6)):
    assert segment.write(Told(array), at) == n, array.dtype
    assert yours[:n].tobytes() == array.tobytes()
for kind in ("t8", "X4", "<u", "", "<u18446744073709551615"):
    told = Told(np.zeros(2, "u8")); told.__array_interface__["typestr"] = kind
    raises(TypeError, lambda: segment.write(told, at))
""")


def test_whatever_a_callback_raises_the_next_ones_run():
    done = well(OBJECTS + """
class Odd(BaseException): pass
def raising(kind):
    def callback(transfer):
        raise kind("meant")
    return callback
def panics(transfer):
    segment.write_many(None, range(1 << 62), range(1 << 62), 1)
for callback in (raising(Odd), raising(KeyboardInterrupt), raising(GeneratorExit), raising(SystemExit), panics, 5, lambda: None):
    there = threading.Event()
    transfer = segment.submit_write(memoryview(ours)[:4096], at)
    transfer.add_done_callback(callback)
    transfer.wait(5)
    transfer = segment.submit_write(memoryview(ours)[:4096], at)
    transfer.add_done_callback(lambda _: there.set())
    assert there.wait(10), callback
""")
    assert done.stderr.count("meant") == 3 and "Odd" in done.stderr, done.stderr


def test_the_thread_of_callbacks_keeps_nothing_that_it_was_given():
    well("""
class Owner(bytearray): pass
data = Owner(4096)
gone, there = weakref.ref(data), threading.Event()
transfer = segment.submit_write(data, at)
transfer.add_done_callback(lambda _: there.set())
assert there.wait(10)
end = time.monotonic() + 10
del data, transfer
while gone() is not None:
    assert time.monotonic() < end
    time.sleep(0.005)
c = Engine(); region = c.allocate(4096); own = c.open(c.name)
own.submit_write(b"x", region.address).add_done_callback(lambda _: there.set())
gone = weakref.ref(c)
before = len(os.listdir("/proc/self/task"))
del c, region, own
while gone() is not None or len(os.listdir("/proc/self/task")) >= before:
    assert time.monotonic() < end
    time.sleep(0.005)
""")


def test_a_notification_that_is_lost_is_an_error():
    well("""
with open("one-notification.toml", "w") as file:
    file.write("[engine]\\nnotify_queue = 1\\n")
b = Engine(config="one-notification.toml")
theirs = b.allocate(SIZE); yours = np.frombuffer(theirs, np.uint8)
segment, at = a.open(b.name), theirs.address
assert segment.write(bytes(10), at, notify=("n", "0")) == 10
error = raises(te_engine.TransferError, lambda: segment.write(bytes(range(10)), at, notify=("n", "1")), b.name)
assert error.phase == "notify" and error.retryable and error.remote_side == "settled" and error.local_state == "free", vars(error)
assert bytes(yours[:10]) == bytes(range(10))
for ask in (lambda t: t.wait(10), lambda t: t.result()):
    transfer = segment.submit_write(bytes(10), at, notify=("n", "2"))
    end = time.monotonic() + 10
    while not transfer.done: assert time.monotonic() < end
    assert transfer.notify == "full" and transfer.state == "completed" and transfer.bytes == 10
    assert raises(te_engine.TransferError, lambda: ask(transfer)).phase == "notify"
async def main():
    await segment.submit_write(bytes(10), at, notify=("n", "3"))
assert raises(te_engine.TransferError, lambda: asyncio.run(main())).phase == "notify"
assert b.notifications() == [("n", "0")]
transfer = segment.submit_write(bytes(10), at, notify=("n", "4"))
assert transfer.wait(10) == 10 and transfer.notify == "delivered" and b.notifications() == [("n", "4")]
transfer = segment.submit_write(bytes(10), at)
assert transfer.wait(10) == 10 and transfer.notify is None
""")


def test_a_region_is_unregistered_by_one_thread_at_a_time():
    well(STILL + """
data = bytearray(1 << 26)
region = a.register(data)
os.kill(child.pid, signal.SIGSTOP)
transfer = there.submit_write(data, address)
first = threading.Thread(target=lambda: raises(te_engine.BusyError, region.unregister))
first.start()
time.sleep(0.3)
error = raises(te_engine.BusyError, region.unregister)
assert region.registered and error.code == -4, vars(error)
os.kill(child.pid, signal.SIGCONT)
first.join()
end()
""", timeout=45)


def test_memory_of_the_engine_goes_with_its_region():
    well(OBJECTS + """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def one():
    region = a.allocate(64 << 20)
    np.frombuffer(region, np.uint8)[::4096] = 1
    return region.address
owner = b.open(a.name)
one()
before = resident()
for _ in range(6):
    place = one()
assert resident() < before + (100 << 20), (before, resident())
owner.refresh()
assert place not in [buffer[0] for buffer in owner.buffers()]
view = memoryview(a.allocate(4096))
owner.refresh()
assert owner.write(b"there", max(buffer[0] for buffer in owner.buffers() if buffer[1] == 4096)) == 5
assert bytes(view[:5]) == b"there"
region = a.allocate(1 << 20)
transfer = segment.submit_write(region, at)
del region
assert transfer.wait(10) == 1 << 20
""")


def test_nobody_waits_while_a_big_region_goes():
    size = 2 << 30 if support.memory_left() > 5 << 30 else 512 << 20
    well(f"""
gaps, stop = [0.0], []
def beat():
    last = time.monotonic()
    while not stop:
        time.sleep(0.001)
        now = time.monotonic()
        gaps.append(now - last)
        last = now
def times():
    region = a.allocate({size})
    np.frombuffer(region, np.uint8)[::4096] = 1
    region.unregister()
    gaps[:] = [0.0]
    begun = time.monotonic()
    del region
    return time.monotonic() - begun
thread = threading.Thread(target=beat); thread.start()
found = []
for _ in range(3):
    took = times()
    time.sleep(0.01)
    found.append((max(gaps), took))
stop.append(1); thread.join()
assert min(gap for gap, _ in found) < 0.05, found
""")


def test_a_transfer_that_nobody_asks_for_gives_its_memory_back():
    well(OBJECTS + """
data = bytearray(1 << 16)
segment.submit_write(data, at)
soon(lambda: free(data))
data = bytearray(1 << 16)
transfer = segment.submit_write(data, at)
soon(lambda: transfer.done)
assert free(data)
data = bytearray(1 << 16)
async def waits():
    await segment.submit_write(data, at)
async def main():
    task = asyncio.ensure_future(waits())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
asyncio.run(main())
soon(lambda: free(data))
""")


FULL = STILL + """
with open("few-requests.toml", "w") as file:
    file.write("[engine]\\nmax_requests = 4\\n")
c = Engine(config="few-requests.toml")
there, owned = c.open(name), c.allocate(1 << 26)
part = memoryview(owned)[:1 << 24]
there.write(memoryview(owned)[:64], address)
os.kill(child.pid, signal.SIGSTOP)
first = [there.submit_write(part, address, timeout=60) for _ in range(4)]
def takes(call, kind, least, most):
    begun = time.monotonic()
    error = raises(kind, call)
    took = time.monotonic() - begun
    assert least <= took < most, took
    return error
"""


def test_submitting_where_there_is_no_room_answers_at_once():
    well(FULL + """
async def main():
    error = takes(lambda: there.submit_write(part, address), te_engine.TransferError, 0, 0.5)
    assert error.retryable and error.local_state == "free" and error.code == -2, vars(error)
    takes(lambda: there.submit_write_many(owned, [0, 64], [address, address + 64], 64), te_engine.TransferError, 0, 0.5)
asyncio.run(main())
end()
""")


def test_a_time_holds_while_there_is_no_room():
    well(FULL + """
error = takes(lambda: there.write(part, address, timeout=0.3), te_engine.TransferError, 0.25, 1.5)
assert isinstance(error, te_engine.TransferTimeout) and error.retryable and error.local_state == "free", vars(error)
takes(lambda: there.read_many(owned, [0], [address], 64, timeout=0.1), te_engine.TransferTimeout, 0.05, 1.5)
threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
takes(lambda: there.write(part, address), KeyboardInterrupt, 0.2, 2)
threading.Timer(0.3, os.kill, (child.pid, signal.SIGCONT)).start()
assert there.write(part, address, timeout=20) == 1 << 24
end()
""")
