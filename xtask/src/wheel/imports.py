"""Run by the interpreter of a bare environment: the wheel works without anything else.

Moves bytes over TCP between two engines, and looks at what was loaded for that.
"""

import sys

import te_engine
from te_engine import compat

FOREIGN = ("libibverbs", "librdmacm", "libmlx", "libcuda", "libetcd", "libnuma")


def engine():
    made = compat.TransferEngine()
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return made, f"127.0.0.1:{made.get_rpc_port()}"


(ours, _), (theirs, name) = engine(), engine()
at, to = ours.allocate_managed_buffer(8192), theirs.allocate_managed_buffer(8192)
assert at and to
ours.write_bytes_to_buffer(at, "moved", 5)
assert ours.transfer_sync_write(name, at, to, 8192) == 0
assert theirs.read_bytes_from_buffer(to, 5) == b"moved"
with open("/proc/self/maps", encoding="utf-8") as maps:
    loaded = {line.split("/", 1)[1].strip() for line in maps if ".so" in line}
foreign = sorted(path for path in loaded if any(word in path for word in FOREIGN))
assert not foreign, foreign
assert "mooncake" not in sys.modules
print("imported", te_engine.__version__, "and moved bytes")
