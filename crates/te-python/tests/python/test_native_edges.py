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
import sys, te_engine
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
kept = a.register(data); again = a.register(data)
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
