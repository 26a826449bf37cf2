"""What the tests share: interpreters, nodes, files of this checkout, waiting with a deadline.

A node is a Python process of either engine that runs what a test sends it; see node.py. Every node that a test made is
ended after the test, so that no test meets another's processes.
"""
import atexit
import contextlib
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
CRATE = HERE.parents[1]
ROOT = HERE.parents[3]
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="te-python-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)

# Ours: the interpreter into which te_engine and the shim are installed. Theirs: the one with the published package.
OURS = os.environ.get("TE_OURS_PYTHON", sys.executable)
THEIRS = os.environ.get("TE_PEER_PYTHON")

MIB = 1 << 20


class Skip(Exception):
    """The test cannot run here."""


def skip(reason):
    raise Skip(reason)


def need_theirs():
    """The interpreter of the published package, or a skip."""
    if not THEIRS:
        skip("the published Mooncake is not installed")
    return THEIRS


def limit(seconds):
    """Gives a test another limit than the usual one."""
    def mark(function):
        function.limit = seconds
        return function
    return mark


def clean_environment(**more):
    """Our environment without what tunes an engine, on TCP, since not every machine has another device."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MC_", "TE_", "PYTHON"))}
    env.update({"MC_FORCE_TCP": "1", "GLOG_minloglevel": "1", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    env.update({k: str(v) for k, v in more.items() if v is not None})
    for key in [k for k, v in more.items() if v is None]:
        env.pop(key, None)
    return env


_nodes = []


def end_nodes(kept_too=False):
    """Ends the nodes that are still there; a node that was left healthy must end by itself."""
    troubles = []
    for node in list(_nodes):
        if node.kept and not kept_too and node.alive() and not node.broken:
            continue
        _nodes.remove(node)
        trouble = node.close()
        if trouble:
            troubles.append(trouble)
    if troubles:
        raise RuntimeError("; ".join(troubles))


class NodeError(Exception):
    """What was run in a node raised; `kind` is the name of the exception's class there."""

    def __init__(self, kind, text, trace):
        super().__init__(f"{kind}: {text}\n{trace}")
        self.kind, self.text = kind, text


class NodeDied(Exception):
    """The node ended while something was expected of it."""


class Node:
    """A process that runs Python that a test sends it."""

    def __init__(self, python=None, name="node", path=(), stack=None, **env):
        self.python, self.name = python or OURS, name
        self.log = tempfile.NamedTemporaryFile(dir=SCRATCH, prefix=f"{name}-", suffix=".err", delete=False)
        command = [self.python, "-B", str(HERE / "node.py"), *map(str, path)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=clean_environment(**env))
        self.buffer = b""
        self.broken = False
        # Whether it outlives the test that made it, for others of the same module.
        self.kept = False
        _nodes.append(self)

    @property
    def pid(self):
        return self.process.pid

    def send(self, source, **values):
        """Starts running `source`; `answer` brings what it returns."""
        line = json.dumps({"source": source, "values": values}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def answer(self, timeout=50):
        """What the source that was sent last returned."""
        line = self.read_line(timeout)
        message = json.loads(line)
        if "error" in message:
            kind, text, trace = message["error"]
            raise NodeError(kind, text, trace)
        return message["value"]

    def run(self, source, timeout=50, **values):
        """Runs `source` there; what it returns comes back through JSON. `values` are its variables."""
        self.send(source, **values)
        return self.answer(timeout)

    def read_line(self, timeout):
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                left = end - time.monotonic()
                if left <= 0 or not ready.select(left):
                    self.broken = True
                    raise TimeoutError(f"{self.name} did not answer within {timeout} s; {self.tail()}")
                chunk = os.read(self.process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise NodeDied(f"{self.name} ended with {self.process.wait()}; {self.tail()}")
                self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def errors(self):
        """What it wrote to stderr so far."""
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def tail(self):
        return "stderr ends with: " + self.errors()[-600:]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.broken = True
        self.process.kill()
        self.process.wait()

    def alive(self):
        return self.process.poll() is None

    def close(self):
        """Ends it; returns what was wrong with that, if anything."""
        healthy = self.alive() and not self.broken
        if self.alive():
            self.process.send_signal(signal.SIGCONT)
        if healthy:
            try:
                self.process.stdin.close()
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return f"{self.name} did not end; {self.tail()}"
        elif self.alive():
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        self.log.close()
        if healthy and self.process.returncode != 0:
            return f"{self.name} ended with {self.process.returncode}; {self.tail()}"
        return None


def engine_node(python=None, name="node", size=0, device="", **env):
    """A node with an initialised engine `e`, named by host and port, and `size` bytes of registered memory at `m`."""
    node = Node(python, name, **env)
    node.host = node.run("""
        global e, m
        e = TransferEngine()
        code = e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", device)
        assert code == 0, code
        m = Memory(size) if size else None
        if size:
            code = e.register_memory(m.addr, m.size)
            assert code == 0, code
        return f"127.0.0.1:{e.get_rpc_port()}"
        """, size=size, device=device)
    node.addr = node.run("return m.addr if m else 0")
    return node


@contextlib.contextmanager
def metadata_server():
    """Our HTTP service for names, by the program of the installed package; gives its address."""
    program = pathlib.Path(OURS).with_name("te")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tempfile.TemporaryFile(dir=SCRATCH)
    process = subprocess.Popen(
        [str(program), "metadata-server", "--listen", f"127.0.0.1:{port}"], stdout=log, stderr=log, env=clean_environment())

    def listens():
        assert process.poll() is None, f"the metadata server ended with {process.returncode}"
        with socket.socket() as look:
            return look.connect_ex(("127.0.0.1", port)) == 0
    try:
        wait_until(listens, 20, "the metadata server to listen")
        yield f"http://127.0.0.1:{port}/metadata"
    finally:
        process.terminate()
        process.wait(20)


def script(source, python=None, timeout=60, args=(), cwd=None, **env):
    """Runs a program in its own interpreter to its end; returns the finished process, with text of both streams."""
    return subprocess.run(
        [python or OURS, "-B", "-c", source, *map(str, args)], capture_output=True, text=True, errors="replace", timeout=timeout,
        env=clean_environment(**env), cwd=cwd or SCRATCH)


def program(words, python=None, timeout=60, **env):
    """Runs a Python program that is a file, with its arguments."""
    return subprocess.run(
        [python or OURS, "-B", *map(str, words)], capture_output=True, text=True, errors="replace", timeout=timeout,
        env=clean_environment(**env), cwd=SCRATCH, stdin=subprocess.DEVNULL)


def indented(source, columns):
    return textwrap.indent(textwrap.dedent(source).strip("\n"), " " * columns)


def memory_left():
    """Bytes of memory that can be had."""
    text = pathlib.Path("/proc/meminfo").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("MemAvailable"))


def wait_until(condition, seconds, what):
    """Waits for a condition; says what did not come."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def equal(found, wanted, what=""):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, wanted {wanted!r}")
