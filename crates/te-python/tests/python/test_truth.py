"""What is told is true, from Python as from Rust: success means the bytes, failure comes when this side is quiet, memory
that is not quiet cannot be unregistered, and a peer may die, hang or come back.

Each test runs twice, over TCP and over memory shared by processes of one host.
"""
import signal
import time

import support
from support import MIB, engine_node

WAYS = {"tcp": {"MC_FORCE_TCP": "1"}, "shm": {"MC_FORCE_TCP": None, "TE_TRANSPORTS": "shm"}}


def both(function):
    """Makes a test for each transport; the last argument is the environment that chooses it."""
    for way, env in WAYS.items():
        def test(env=env):
            function(dict(env))
        test.__name__ = f"test_{function.__name__}_over_{way}"
        test.limit = 90
        globals()[test.__name__] = test
    return function


def pair(env, size, target_size=None):
    a = engine_node(name="initiator", size=size, **env)
    b = engine_node(name="target", size=target_size or size, **env)
    return a, b


def impatient(env):
    """The shortest limit that a synchronous call can have."""
    return {**env, "MC_TRANSFER_TIMEOUT": 5}


@both
def success_means_the_bytes_are_there(env):
    a, b = pair(env, 8 * MIB)
    for seed in range(100, 130):
        length = (seed * 524287) % (8 * MIB) + 1
        code = a.run("m.fill(seed, 0, n); return e.transfer_sync_write(host, m.addr, at, n)", seed=seed, n=length, host=b.host, at=b.addr)
        support.equal(code, 0)
        support.equal(b.run("return m.holds(seed, 0, n)", seed=seed, n=length), None, f"seed {seed}")
    code = a.run("m.clear(); return e.transfer_sync_read(host, m.addr, at, m.size)", host=b.host, at=b.addr)
    support.equal(code, 0)
    support.equal(a.run("return m.holds(seed, 0, n)", seed=129, n=length), None)


@both
def fault03_a_target_stopped_in_a_write_leaves_the_buffer_quiet(env):
    """Peer fault 3: after the failure nothing that is written into the buffer then may reach the target."""
    a, b = pair(impatient(env), 256 * MIB)
    code, seconds, unregistered, quarantined = stopped(a, b, "write")
    if code == 0:
        # It was faster than the signal: there was nothing to fail.
        support.equal(b.run("return m.holds(51)"), None)
        return
    assert seconds < 20, f"the failure took {seconds} s"
    assert (unregistered == -4) == quarantined, (unregistered, quarantined)
    settle(a)
    # Of the later pattern nothing may be there; each byte is of the first one or still zero.
    foreign = b.run("""
        want = pattern(51, m.size)
        return int(((m.bytes != want) & (m.bytes != 0)).sum())
        """)
    support.equal(foreign, 0, "bytes of the buffer's later content that reached the target")


@both
def fault03_a_target_stopped_in_a_read_leaves_the_buffer_quiet(env):
    """The same the other way: nothing arrives in the buffer after the failure."""
    a, b = pair(impatient(env), 256 * MIB)
    b.run("m.fill(51)")
    code, seconds, unregistered, quarantined = stopped(a, b, "read")
    if code == 0:
        return
    assert seconds < 20, f"the failure took {seconds} s"
    assert (unregistered == -4) == quarantined, (unregistered, quarantined)
    settle(a)
    if not quarantined:
        support.equal(a.run("return m.holds(52)"), None, "bytes that arrived after the failure")


def stopped(a, b, direction):
    """Stops the target in mid transfer; afterwards the initiator fills its buffer anew and unregisters it, the target goes on."""
    a.send("""
        m.fill(51 if direction == "write" else 50)
        call = e.transfer_sync_write if direction == "write" else e.transfer_sync_read
        begun = time.monotonic()
        answers.write("begun\\n")
        code = call(host, m.addr, at, m.size)
        seconds = time.monotonic() - begun
        unregistered = e.unregister_memory(m.addr) if code else 0
        if unregistered == 0:
            m.fill(52)
        return [code, seconds, unregistered, unregistered == -4]
        """, host=b.host, at=b.addr, direction=direction)
    support.equal(a.read_line(50), b"begun")
    time.sleep(0.03)
    b.signal(signal.SIGSTOP)
    try:
        return a.answer(60)
    finally:
        b.signal(signal.SIGCONT)


def settle(a):
    """Once the peer goes on or is given up, the memory becomes free."""
    def free():
        return a.run("return e.unregister_memory(m.addr)") in (0, -3)
    support.wait_until(free, 40, "the memory to leave quarantine")


@both
def fault09_a_target_killed_in_mid_transfer_fails_it_soon_and_the_next_at_once(env):
    a, b = pair(env, 512 * MIB)
    a.send("""
        m.fill(53)
        answers.write("begun\\n")
        begun = time.monotonic()
        for _ in range(1000):
            code = e.transfer_sync_write(host, m.addr, at, m.size)
            if code:
                break
        seconds = time.monotonic() - begun
        begun = time.monotonic()
        again = [e.transfer_sync_write(host, m.addr, at, 4096), e.batch_transfer_sync_write(host, [m.addr], [at], [4096])]
        return [code, seconds, again, time.monotonic() - begun, e.unregister_memory(m.addr)]
        """, host=b.host, at=b.addr)
    support.equal(a.read_line(50), b"begun")
    time.sleep(0.05)
    b.kill()
    code, seconds, again, later, unregistered = a.answer(60)
    support.equal(code, -1)
    assert seconds < 12 and later < 12, (seconds, later)
    support.equal(again, [-1, -1])
    if unregistered == -4:
        settle(a)
    else:
        support.equal(unregistered, 0)
    # The initiator is well: a new peer is served as before.
    c = engine_node(name="successor", size=MIB, **env)
    support.equal(a.run("""
        global k
        k = Memory(1 << 20)
        k.fill(54)
        assert e.register_memory(k.addr, k.size) == 0
        return e.transfer_sync_write(host, k.addr, at, k.size)
        """, host=c.host, at=c.addr), 0)
    support.equal(c.run("return m.holds(54)"), None)


@both
def fault13_a_peer_that_restarts_under_its_name_is_found_again(env):
    """Through a metadata service, where the name stays while ports and addresses change."""
    with support.metadata_server() as service:
        a = named_node("first", service, env)
        b = named_node("second", service, env)
        at = b.run("return m.addr")
        write = "m.fill(seed); return e.transfer_sync_write('second', m.addr, at, m.size)"
        support.equal(a.run(write, seed=55, at=at), 0)
        support.equal(b.run("return m.holds(55)"), None)
        b.kill()
        support.equal(a.run(write, seed=56, at=at), -1)
        c = named_node("second", service, env)
        at = c.run("return m.addr")

        def arrives():
            return a.run(write, seed=57, at=at) == 0
        support.wait_until(arrives, 15, "a transfer to the restarted peer")
        support.equal(c.run("return m.holds(57)"), None)


def named_node(name, service, env):
    node = support.Node(name=name, **env)

    def started():
        return node.run("""
            global e, m
            e = TransferEngine()
            if e.initialize(name, service, "tcp", "") != 0:
                return False
            m = Memory(1 << 20)
            return e.register_memory(m.addr, m.size) == 0
            """, name=name, service=service)
    support.wait_until(started, 15, f"{name} to start")
    return node


@both
def fault04_unregistering_at_the_target_ends_the_write_first(env):
    """No byte lands after unregister returned 0."""
    a, b = pair(env, 256 * MIB)
    a.send("""
        m.fill(58)
        answers.write("begun\\n")
        codes = [e.transfer_sync_write(host, m.addr, at, m.size) for _ in range(3)]
        return codes
        """, host=b.host, at=b.addr)
    support.equal(a.read_line(50), b"begun")
    time.sleep(0.02)
    found = b.run("""
        code = e.unregister_memory(m.addr)
        if code == 0:
            m.clear()
        return code
        """)
    codes = a.answer(80)
    assert found in (0, -4), found
    if found == 0:
        assert codes[-1] == -1, codes
        assert b.run("return m.is_zero()"), "bytes landed after unregister had returned 0"


@both
def fault28_local_memory_that_nobody_registered(env):
    a, b = pair(env, MIB)
    found = a.run("""
        loose = Memory(1 << 20)
        loose.fill(59)
        code = [e.transfer_sync_write(host, loose.addr, at, 1 << 20)]
        loose.clear()
        code.append(e.transfer_sync_read(host, loose.addr, at, 1 << 20))
        code.append(loose.holds(59))
        # Not kept: the same memory can be registered, and unregistered, as if nothing had been.
        code += [e.register_memory(loose.addr, loose.size), e.unregister_memory(loose.addr)]
        # Not mapped: told as a failure, and the process lives.
        gone = Memory(1 << 20)
        gone.unmap()
        code += [e.transfer_sync_write(host, gone.addr, at, 4096), e.transfer_sync_read(host, gone.addr, at, 4096)]
        code.append(e.batch_transfer_sync_write(host, [loose.addr, gone.addr], [at, at + 8192], [4096, 4096]))
        batch = e.transfer_submit_write(host, gone.addr, at, 4096)
        state = 0
        end = time.monotonic() + 10
        while batch and state == 0 and time.monotonic() < end:
            state = e.transfer_check_status(batch)
        code.append(-1 if batch == 0 else state)
        code.append(e.transfer_sync_write(host, loose.addr, at, 4096))
        return code
        """, host=b.host, at=b.addr)
    support.equal(found, [0, 0, None, 0, 0, -1, -1, -1, -1, 0])


@both
def a_batch_with_one_bad_request_is_told_as_failed_and_nothing_runs_on(env):
    a, b = pair(env, 64 * MIB)
    found = a.run("""
        m.fill(60)
        k = 1 << 20
        froms = [m.addr + i * k for i in range(64)]
        tos = [at + i * k for i in range(64)]
        tos[40] = 0x1000
        code = e.batch_transfer_sync_write(host, froms, tos, [k] * 64)
        code2 = e.unregister_memory(m.addr)
        m.clear()
        return [code, code2]
        """, host=b.host, at=b.addr)
    support.equal(found, [-1, 0])
    foreign = b.run("want = pattern(60, m.size)\nreturn int(((m.bytes != want) & (m.bytes != 0)).sum())")
    support.equal(foreign, 0)
