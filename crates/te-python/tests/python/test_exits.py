"""How a process ends that has an engine: with the exit code that it meant, without a core, and without a panic.

The table below has a scenario a line: name, exit code, source. A negative code is the number of a signal. The sources
share what PRELUDE defines. Each is a test of its own.
"""
import os
import resource
import signal
import subprocess
import tempfile

import support
from support import OURS, SCRATCH

PRELUDE = """
import asyncio, atexit, ctypes, gc, importlib, mmap, os, signal, socket, subprocess, sys, threading, time, weakref
import multiprocessing
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

def memory(n=1 << 20):
    m = mmap.mmap(-1, n)
    return m, ctypes.addressof(ctypes.c_char.from_buffer(m))

def engine():
    e = TransferEngine()
    assert e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return e, f"127.0.0.1:{e.get_rpc_port()}"

def ready(n=1 << 20):
    e, name = engine()
    m, at = memory(n)
    assert e.register_memory(at, n) == 0
    return e, name, m, at

def write(e, name, at, n=4096):
    code = e.transfer_sync_write(name, at, at + 65536, n)
    assert code == 0, code

def silent():
    'A peer that takes connections and never says a word.'
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(64)
    return s, f"127.0.0.1:{s.getsockname()[1]}"

def soon(function):
    t = threading.Thread(target=function, daemon=True)
    t.start()
    return t
"""

NATIVE = """
import te_engine
from te_engine import Engine
"""

SCENARIOS = [
    # Engines that are there at the end, in every place where one can be.
    ("import_alone", 0, "pass"),
    ("engine_never_initialised", 0, "e = TransferEngine()"),
    ("engine_alive", 0, "e, name = engine()"),
    ("engine_deleted", 0, "e, name = engine(); del e"),
    ("engine_in_a_cycle", 0, "e, name = engine(); l = [e]; l.append(l); del e, l; gc.collect()"),
    ("engine_in_a_cycle_at_exit", 0, "e, name = engine(); l = [e]; l.append(l); gc.disable()"),
    ("engine_in_a_builtin_module", 0, "import builtins; builtins.kept, name = engine()"),
    ("engine_in_a_thread_local", 0, "t = threading.local(); t.e, name = engine()"),
    ("engine_of_a_thread_that_ended", 0, "t = threading.Thread(target=lambda: globals().update(e=engine())); t.start(); t.join()"),
    ("engine_dropped_by_another_thread", 0, "box = [engine()]; t = threading.Thread(target=box.clear); t.start(); t.join()"),
    ("two_engines_that_know_each_other", 0, "a, n1, m, at = ready(); b, n2, k, to = ready()\nassert a.transfer_sync_write(n2, at, to, 4096) == 0 and b.transfer_sync_write(n1, to, at, 4096) == 0"),
    ("ten_engines_made_and_dropped", 0, "for _ in range(10): engine()"),
    # Memory.
    ("memory_left_registered", 0, "e, name, m, at = ready(); write(e, name, at)"),
    ("memory_unmapped_while_registered", 0, "e, name, m, at = ready(); ctypes.CDLL(None).munmap(ctypes.c_void_p(at), ctypes.c_size_t(1 << 20)); os._exit(0)"),
    ("managed_memory_left", 0, "e, name = engine(); assert e.allocate_managed_buffer(1 << 20)"),
    # Ways to leave.
    ("exit_code", 7, "e, name, m, at = ready(); sys.exit(7)"),
    ("exit_with_text", 1, "e, name, m, at = ready(); sys.exit('bye')"),
    ("exception", 1, "e, name, m, at = ready(); raise ValueError('meant')"),
    ("os_exit", 9, "e, name, m, at = ready(); soon(lambda: [write(e, name, at) for _ in range(10**6)]); time.sleep(0.05); os._exit(9)"),
    ("killed", -signal.SIGKILL, "e, name, m, at = ready(); os.kill(os.getpid(), signal.SIGKILL)"),
    ("terminated", -signal.SIGTERM, "e, name, m, at = ready(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"),
    ("terminated_with_a_handler", 3, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); e, name, m, at = ready(); soon(lambda: (time.sleep(0.1), os.kill(os.getpid(), signal.SIGTERM)))\nwhile True: write(e, name, at)"),
    ("interrupted", -signal.SIGINT, "e, name, m, at = ready(); soon(lambda: (time.sleep(0.1), os.kill(os.getpid(), signal.SIGINT)))\nwhile True: write(e, name, at)"),
    ("handler_that_uses_the_engine", 0, "e, name, m, at = ready(); signal.signal(signal.SIGALRM, lambda *_: write(e, name, at)); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\nfor _ in range(200): write(e, name, at)\nsignal.setitimer(signal.ITIMER_REAL, 0)"),
    ("replaced_by_exec", 5, "e, name, m, at = ready(); os.execv(sys.executable, [sys.executable, '-c', 'import sys; sys.exit(5)'])"),
    ("standard_error_closed", 0, "os.close(2); e, name, m, at = ready(); e.transfer_sync_write(name, at, 4096, 16)"),
    # What runs while the interpreter ends.
    ("atexit_that_transfers", 0, "e, name, m, at = ready(); atexit.register(lambda: (write(e, name, at), os.write(1, b'done')))"),
    ("atexit_from_before_the_engine", 0, "atexit.register(lambda: write(e, name, at)); e, name, m, at = ready()"),
    ("atexit_that_raises", 0, "e, name, m, at = ready(); atexit.register(lambda: 1 / 0)"),
    ("finaliser_that_transfers", 0, "e, name, m, at = ready()\nclass C: pass\nc = C(); weakref.finalize(c, lambda: write(e, name, at))"),
    ("destructor_that_transfers", 0, "class C:\n    def __init__(self): self.parts = ready()\n    def __del__(self): e, name, m, at = self.parts; write(e, name, at)\nc = C()"),
    ("module_imported_again", 0, "import mooncake.engine; e, name = engine(); importlib.reload(mooncake.engine); e2, name2 = engine()"),
    ("module_forgotten_and_imported", 0, "e, name = engine()\nfor n in [n for n in sys.modules if n.startswith('mooncake')]: del sys.modules[n]\nfrom mooncake.engine import TransferEngine; f, name2 = engine()"),
    # Threads.
    ("daemon_thread_that_transfers", 0, "e, name, m, at = ready(); soon(lambda: [write(e, name, at) for _ in range(10**6)]); time.sleep(0.1)"),
    ("daemon_threads_in_long_calls", 0, "e, name, m, at = ready(); s, there = silent(); [soon(lambda: e.transfer_sync_write(there, at, at, 16)) for _ in range(4)]; time.sleep(0.2)"),
    ("daemon_thread_that_starts_an_engine", 0, "soon(engine); time.sleep(0.005)"),
    ("thread_that_outlives_the_main_one", 0, "e, name, m, at = ready(); threading.Thread(target=lambda: (time.sleep(0.2), write(e, name, at))).start()"),
    ("exit_in_a_thread", 0, "e, name, m, at = ready(); t = threading.Thread(target=lambda: (write(e, name, at), sys.exit(8))); t.start(); t.join()"),
    ("fifty_threads", 0, "e, name, m, at = ready(); ts = [threading.Thread(target=write, args=(e, name, at)) for _ in range(50)]; [t.start() for t in ts]; [t.join() for t in ts]"),
    # Transfers that nobody asked about.
    ("batch_never_asked_about", 0, "e, name, m, at = ready(64 << 20); assert e.batch_transfer_async_write(name, [at], [at + (32 << 20)], [32 << 20])"),
    ("submitted_write_never_asked_about", 0, "e, name, m, at = ready(64 << 20); assert e.transfer_submit_write(name, at, at + (32 << 20), 32 << 20)"),
    ("engine_dropped_with_a_batch", 0, "e, name, m, at = ready(64 << 20); e.batch_transfer_async_write(name, [at], [at + (32 << 20)], [32 << 20]); del e"),
    ("after_a_failure", 0, "e, name, m, at = ready(); assert e.transfer_sync_write('127.0.0.1:1', at, at, 16) == -1"),
    # Other processes.
    ("forked_child_that_leaves_at_once", 0, "e, name, m, at = ready(); pid = os.fork()\nif pid == 0: os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0; write(e, name, at)"),
    ("forked_child_that_ends_as_usual", 0, "e, name, m, at = ready(); pid = os.fork()\nif pid == 0: sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0; write(e, name, at)"),
    ("forked_child_that_drops_the_engine", 0, "e, name, m, at = ready(); pid = os.fork()\nif pid == 0:\n    del e; gc.collect(); sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0; write(e, name, at)"),
    ("forked_child_with_an_engine_of_its_own", 0, "e, name, m, at = ready(); pid = os.fork()\nif pid == 0:\n    f, n2, k, to = ready(); write(f, n2, to); sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0; write(e, name, at)"),
    ("forked_while_a_thread_transfers", 0, "e, name, m, at = ready(); soon(lambda: [write(e, name, at) for _ in range(10**6)])\nfor _ in range(5):\n    pid = os.fork()\n    if pid == 0: sys.exit(0)\n    assert os.waitpid(pid, 0)[1] == 0"),
    ("multiprocessing_by_fork", 0, "e, name, m, at = ready(); p = multiprocessing.get_context('fork').Process(target=lambda: None); p.start(); p.join(); assert p.exitcode == 0"),
    ("subprocess_beside_an_engine", 0, "e, name, m, at = ready(); assert subprocess.run(['true']).returncode == 0; write(e, name, at)"),
    ("no_descriptors_left", 0, "import resource; e, name, m, at = ready(); h = resource.getrlimit(resource.RLIMIT_NOFILE); resource.setrlimit(resource.RLIMIT_NOFILE, (16, h[1]))\nfds = []\ntry:\n    while True: fds.append(os.dup(0))\nexcept OSError: pass\nassert TransferEngine().initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', '') != 0"),
]

NATIVE_SCENARIOS = [
    ("left_by_the_context_manager", 0, "with Engine() as e: pass"),
    ("context_manager_left_by_an_exception", 1, "with Engine() as e: raise ValueError('meant')"),
    ("context_manager_left_by_exit", 6, "with Engine() as e: sys.exit(6)"),
    ("closed_twice", 0, "e = Engine(); e.close(); e.close()"),
    ("region_that_outlives_its_engine", 0, "e = Engine(); r = e.allocate(1 << 20); e.close(); del e"),
    ("view_of_memory_at_exit", 0, "e = Engine(); r = e.allocate(1 << 20); v = memoryview(r); v[0] = 1"),
    ("callback_pending", 0, "e = Engine(); r = e.allocate(64 << 20); s = e.open(e.name); t = s.submit_write(memoryview(r)[:32 << 20], r.address + (32 << 20)); t.add_done_callback(lambda t: None)"),
    ("callback_that_raises", 0, "e = Engine(); r = e.allocate(1 << 20); s = e.open(e.name); t = s.submit_write(memoryview(r)[:4096], r.address + 65536); t.add_done_callback(lambda t: 1 / 0); t.wait(5); time.sleep(0.1)"),
    ("callback_that_exits", 0, "e = Engine(); r = e.allocate(1 << 20); s = e.open(e.name); t = s.submit_write(memoryview(r)[:4096], r.address + 65536); t.add_done_callback(lambda t: sys.exit(4)); t.wait(5); time.sleep(0.1)"),
    ("callback_that_never_ends", 0, "def cb(t):\n    while True: pass\ne = Engine(); r = e.allocate(1 << 20); s = e.open(e.name); t = s.submit_write(memoryview(r)[:4096], r.address + 65536); t.add_done_callback(cb); t.wait(5); time.sleep(0.2); del t"),
    ("callback_that_sleeps_on", 0, "def cb(t):\n    while True: time.sleep(0)\ne = Engine(); r = e.allocate(1 << 20); s = e.open(e.name); t = s.submit_write(memoryview(r)[:4096], r.address + 65536); t.add_done_callback(cb); t.wait(5); time.sleep(0.2); del t"),
    ("callback_that_uses_the_engine_on", 0, "def cb(t):\n    while True:\n        try: s.write(memoryview(r)[:4096], r.address)\n        except Exception: pass\ne = Engine(); r = e.allocate(1 << 20); s = e.open(e.name); t = s.submit_write(memoryview(r)[:4096], r.address + 65536); t.add_done_callback(cb); t.wait(5); time.sleep(0.2); del t"),
    ("transfer_dropped", 0, "e = Engine(); r = e.allocate(64 << 20); s = e.open(e.name); s.submit_write(memoryview(r)[:32 << 20], r.address + (32 << 20))"),
    ("transfer_awaited", 0, "async def main():\n    with Engine() as e:\n        r = e.allocate(1 << 20); s = e.open(e.name); await s.submit_write(memoryview(r)[:4096], r.address + 65536)\nasyncio.run(main())"),
    ("loop_closed_with_a_transfer", 0, "e = Engine(); r = e.allocate(64 << 20)\nasync def one(): await e.open(e.name).submit_write(memoryview(r)[:32 << 20], r.address + (32 << 20))\nasync def main(): asyncio.ensure_future(one()); await asyncio.sleep(0)\nasyncio.run(main())"),
    ("interrupted_in_a_loop", -signal.SIGINT, "e = Engine(); r = e.allocate(1 << 20)\nasync def main():\n    soon(lambda: (time.sleep(0.1), os.kill(os.getpid(), signal.SIGINT)))\n    s = e.open(e.name)\n    while True: await s.submit_write(memoryview(r)[:4096], r.address + 65536)\nasyncio.run(main())"),
]


def ends(name, code, source):
    """Runs a scenario in a folder of its own, where a core would be seen."""
    folder = tempfile.mkdtemp(dir=SCRATCH, prefix="exit-")

    def with_cores():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    done = subprocess.run(
        [OURS, "-B", "-c", PRELUDE + source], capture_output=True, timeout=40, cwd=folder, text=True, errors="replace",
        env=support.clean_environment(RUST_BACKTRACE=1), preexec_fn=with_cores, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"{name}: exit code {done.returncode}, not {code}\n{done.stderr[-1500:]}"
    if code == 1:
        assert "meant" in done.stderr or "bye" in done.stderr, done.stderr[-1500:]
    assert "panicked" not in done.stderr and "panicked" not in done.stdout, done.stderr[-1500:]
    assert "Fatal Python error" not in done.stderr, done.stderr[-1500:]
    cores = [file for file in os.listdir(folder) if "core" in file]
    assert not cores, cores
    return done


def make(name, code, source):
    def test():
        done = ends(name, code, source)
        if name == "atexit_that_transfers":
            support.equal(done.stdout, "done")
    test.__name__ = f"test_{name}"
    return test


for _scenario in SCENARIOS:
    globals()[f"test_{_scenario[0]}"] = make(*_scenario)
for _scenario in NATIVE_SCENARIOS:
    globals()[f"test_{_scenario[0]}"] = make(_scenario[0], _scenario[1], NATIVE + _scenario[2])
del _scenario


def test_there_are_at_least_forty_scenarios():
    names = [scenario[0] for scenario in SCENARIOS + NATIVE_SCENARIOS]
    support.equal(len(set(names)), len(names))
    assert len(names) >= 40, len(names)
    print(f"row exits: {len(names)} scenarios")
