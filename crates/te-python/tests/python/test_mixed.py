"""Ours and theirs, in both directions, by every Python call, bytes compared.

An initiator of one engine works on a target of the other. The nodes are kept for the whole module, each call with memory
places of its own.
"""
import support
from support import MIB

SIZE = 64 * MIB
N = 8 * MIB

_pairs = {}


def pair(direction):
    """(initiator, target): `ours` has ours as the initiator, `theirs` theirs."""
    theirs = support.need_theirs()
    found = _pairs.get(direction)
    if found and all(node.alive() and not node.broken for node in found):
        return found
    pythons = (support.OURS, theirs) if direction == "ours" else (theirs, support.OURS)
    made = tuple(
        support.engine_node(python, f"{direction}-{role}", SIZE) for python, role in zip(pythons, ("initiator", "target")))
    for node in made:
        node.kept = True
        node.run("global opcode_of; opcode_of = opcode\nreturn 0")
    _pairs[direction] = made
    return made


def both(function):
    """Makes two tests of one: ours to theirs, and theirs to ours."""
    for direction in ("ours", "theirs"):
        def test(direction=direction):
            a, b = pair(direction)
            a.run("m.clear()")
            b.run("m.clear()")
            function(a, b)
        other = "theirs" if direction == "ours" else "ours"
        test.__name__ = f"test_{direction}_to_{other}_{function.__name__}"
        globals()[test.__name__] = test
    return function


def wrote(b, seed, length=N, at=0):
    support.equal(b.run("return m.holds(seed, at, length)", seed=seed, at=at, length=length), None, "first difference at the target")


@both
def transfer_sync_write(a, b):
    code = a.run("m.fill(seed, 0, n); return e.transfer_sync_write(host, m.addr, to, n)", seed=11, host=b.host, to=b.addr, n=N)
    support.equal(code, 0)
    wrote(b, 11)
    assert b.run("return m.is_zero(n)", n=N), "bytes beside the written ones"


@both
def transfer_sync_read(a, b):
    b.run("m.fill(seed, 0, n)", seed=12, n=N)
    code = a.run("return e.transfer_sync_read(host, m.addr, to, n)", host=b.host, to=b.addr, n=N)
    support.equal(code, 0)
    wrote(a, 12)
    assert a.run("return m.is_zero(n)", n=N), "bytes beside the read ones"


@both
def transfer_sync_in_both_ways_with_a_notification(a, b):
    found = a.run("""
        m.fill(13, 0, n)
        first = e.transfer_sync(host, m.addr, to, n, opcode("Write"), notify("a name", "a message"))
        second = e.transfer_sync(host, m.addr + n, to, n, opcode=opcode("Read"))
        return [first, second, m.holds(13, n, n)]
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, [0, 0, None])
    wrote(b, 13)
    notes = []

    def came():
        notes.extend(b.run("return [[n.name, n.msg] for n in e.get_notifies()]"))
        return notes
    support.wait_until(came, 5, "the notification")
    support.equal(notes, [["a name", "a message"]])


@both
def batch_transfer_sync_write_and_read(a, b):
    found = a.run("""
        m.fill(14, 0, n)
        k = 64 << 10
        places = range(0, n, k)
        back = [m.addr + n + p for p in places]
        there = [to + (n - k - p) for p in places]
        first = e.batch_transfer_sync_write(host, [m.addr + p for p in places], there, [k] * len(places))
        second = e.batch_transfer_sync_read(host, back, there, [k] * len(places))
        return [first, second, m.holds(14, n, n)]
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, [0, 0, None])
    swapped = b.run("""
        k = 64 << 10
        want = pattern(14, n).reshape(-1, k)[::-1].ravel()
        return first_difference(m.bytes[:n], want)
        """, n=N)
    support.equal(swapped, None)


@both
def batch_transfer_sync_by_opcode(a, b):
    found = a.run("""
        m.fill(15, 0, n)
        first = e.batch_transfer_sync(host, [m.addr, m.addr + n // 2], [to, to + n // 2], [n // 2] * 2, opcode("Write"), notify("b", "c"))
        second = e.batch_transfer_sync(host, [m.addr + n], [to], [n], opcode("Read"))
        return [first, second, m.holds(15, n, n)]
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, [0, 0, None])
    wrote(b, 15)
    notes = []

    def came():
        notes.extend(b.run("return [[n.name, n.msg] for n in e.get_notifies()]"))
        return notes
    support.wait_until(came, 5, "the notification")
    support.equal(notes, [["b", "c"]])


@both
def batch_transfer_async_write_and_read(a, b):
    found = a.run("""
        m.fill(16, 0, n)
        half = n // 2
        first = e.batch_transfer_async_write(host, [m.addr], [to], [half])
        second = e.batch_transfer_async_write(host, [m.addr + half], [to + half], [half])
        third = e.batch_transfer_async(host, [m.addr], [to + n], [n], opcode("Write"))
        assert first and second and third
        code = e.get_batch_transfer_status([first, second, third])
        fourth = e.batch_transfer_async_read(host, [m.addr + n], [to], [n])
        assert fourth
        return [code, e.get_batch_transfer_status([fourth]), m.holds(16, n, n)]
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, [0, 0, None])
    wrote(b, 16)
    wrote(b, 16, at=N)


@both
def transfer_submit_write_and_check(a, b):
    found = a.run("""
        m.fill(17, 0, n)
        batch = e.transfer_submit_write(host, m.addr, to, n)
        assert batch
        end = time.monotonic() + 20
        state = 0
        while state == 0 and time.monotonic() < end:
            state = e.transfer_check_status(batch)
        return state
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, 1)
    wrote(b, 17)


@both
def first_buffer_and_probe(a, b):
    support.equal(a.run("return e.get_first_buffer_address(host)", host=b.host), b.addr)
    support.equal(a.run("return e.send_probe(host)", host=b.host), 0)
    support.equal(a.run("return e.warmup_efa_segment(host)", host=b.host), 0)


@both
def managed_memory_on_both_sides(a, b):
    at = b.run("""
        at = e.allocate_managed_buffer(1 << 20)
        assert at
        ctypes.memset(at, 0, 1 << 20)
        return at
        """)
    code = a.run("""
        mine = e.allocate_managed_buffer(1 << 20)
        assert mine
        ctypes.memmove(mine, pattern(18, 1 << 20).tobytes(), 1 << 20)
        code = e.transfer_sync_write(host, mine, at, 1 << 20)
        ctypes.memset(mine, 0, 1 << 20)
        back = e.transfer_sync_read(host, mine, at, 1 << 20)
        same = e.read_bytes_from_buffer(mine, 1 << 20) == pattern(18, 1 << 20).tobytes()
        return [code, back, same, e.free_managed_buffer(mine, 1 << 20)]
        """, host=b.host, at=at)
    support.equal(code, [0, 0, True, 0])
    same = b.run("return [e.read_bytes_from_buffer(at, 1 << 20) == pattern(18, 1 << 20).tobytes(), e.free_managed_buffer(at, 1 << 20)]", at=at)
    support.equal(same, [True, 0])


@both
def memory_that_comes_and_goes(a, b):
    at = b.run("""
        global extra
        extra = Memory(4 << 20)
        assert e.batch_register_memory([extra.addr, extra.addr + (1 << 20)], [1 << 20, 1 << 20]) == 0
        return extra.addr
        """)
    write = "m.fill(19, 0, k); return e.transfer_sync_write(host, m.addr, at, k)"
    support.equal(a.run(write, host=b.host, at=at, k=MIB), 0)
    support.equal(b.run("return [extra.holds(19, 0, 1 << 20), extra.is_zero(1 << 20)]"), [None, True])
    support.equal(b.run("return e.batch_unregister_memory([extra.addr, extra.addr + (1 << 20)])"), 0)
    support.equal(a.run(write, host=b.host, at=at, k=MIB), -1)
    support.equal(b.run("return e.register_memory(extra.addr + (2 << 20), 2 << 20)"), 0)
    support.equal(a.run(write, host=b.host, at=at + 2 * MIB, k=MIB), 0)
    support.equal(b.run("return [extra.holds(19, 2 << 20, 1 << 20), e.unregister_memory(extra.addr + (2 << 20))]"), [None, 0])


@both
def local_memory_that_nobody_registered(a, b):
    found = a.run("""
        loose = Memory(n)
        loose.fill(20)
        return e.transfer_sync_write(host, loose.addr, to, n)
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, 0)
    wrote(b, 20)


@both
def a_bad_address_is_told_and_the_next_transfer_goes_on(a, b):
    found = a.run("""
        m.fill(21, 0, n)
        codes = [e.transfer_sync_write(host, m.addr, 0x1000, 64), e.transfer_sync_read(host, m.addr, 0x1000, 64)]
        return codes + [e.transfer_sync_write(host, m.addr, to, n)]
        """, host=b.host, to=b.addr, n=N)
    support.equal(found, [-1, -1, 0])
    wrote(b, 21)
