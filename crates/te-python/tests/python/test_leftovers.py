"""What objects leave behind when they go, and a server that was short of something for a while.

Each test is a program of its own.
"""
import textwrap

import support


def whole(source, timeout=60, **env):
    done = support.script(textwrap.dedent(source) + "\nprint('well')\n", timeout=timeout, **env)
    assert done.returncode == 0 and done.stdout.strip().endswith("well"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-2500:]}"
    assert "panicked" not in done.stderr, done.stderr


def test_a_shared_segment_closes_its_file():
    whole("""
        import ctypes, gc, os
        from te_engine.compat import SharedSegment
        def files():
            return sum(os.path.exists(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        before = files()
        for i in range(20):
            segment, blob = SharedSegment.create("x", 1 << 20, 1, 0)
            segment.complete([blob])
            ctypes.memset(segment.base_addr(), 1, 1 << 20)
            assert len({os.fstat(int(fd)).st_ino for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")})
            del segment
        gc.collect()
        for name in ("n" * 300,):
            try:
                SharedSegment.create(name, 4096, 1, 0)
            except RuntimeError:
                pass
            else:
                raise AssertionError("no error")
        gc.collect()
        assert files() == before, (before, files())
        # Of two segments the one that is kept stays open.
        kept, blob = SharedSegment.create("kept", 4096, 1, 0)
        other, _ = SharedSegment.create("other", 4096, 1, 0)
        del other; gc.collect()
        kept.complete([blob])
        assert kept.ready() and ctypes.memset(kept.base_addr(), 1, 4096)
        """)


def test_a_server_that_was_out_of_descriptors_serves_again():
    whole("""
        import os, resource, socket, threading, time
        from te_engine.compat import create_rpc_client, create_rpc_server
        def port():
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                return probe.getsockname()[1]
        server, address = create_rpc_server(), f"127.0.0.1:{port()}"
        assert server.initialize_server(address, 8, 2) and server.start_server()
        server.set_data_receive_callback(lambda data: None)
        client = create_rpc_client()
        assert client.initialize_client(1, 5) and client.send_data(address, b"hi") == 0
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        held = []
        try:
            while True: held.append(os.dup(0))
        except OSError:
            pass
        os.close(held.pop())
        host, number = address.split(":")
        used = time.process_time()
        with socket.socket() as waits:
            waits.connect((host, int(number)))
            time.sleep(0.5)
            assert time.process_time() - used < 0.25, "it spins"
            for fd in held: os.close(fd)
        assert client.send_data(address, b"hi") == 0
        # It ends when it is told to, and can be started again.
        server.stop_server()
        assert client.send_data(address, b"hi") == -1
        assert not server.start_server()
        again = f"127.0.0.1:{port()}"
        assert server.initialize_server(again, 8, 2) and server.start_server() and client.send_data(again, b"hi") == 0
        server.stop_server()
        """)


def test_a_server_whose_socket_broke_can_be_started_again():
    whole("""
        import socket, time
        from te_engine.compat import create_rpc_client, create_rpc_server
        server, client = create_rpc_server(), create_rpc_client()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        assert server.initialize_server(address, 8, 2) and server.start_server()
        server._listener.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + 10
        while server._thread is not None:
            assert time.monotonic() < end
            time.sleep(0.005)
        server.stop_server()
        server.set_data_receive_callback(lambda data: None)
        assert server.initialize_server(address, 8, 2) and server.start_server()
        assert client.send_data(address, b"hi") == 0
        """)


def test_an_engine_goes_whose_registered_memory_knows_it():
    whole("""
        import gc, os, weakref
        from te_engine import Engine
        class Owner(bytearray): pass
        def threads():
            return len(os.listdir("/proc/self/task"))
        before, gone = threads(), []
        for i in range(5):
            engine, data = Engine(), Owner(4096)
            region = engine.register(data)
            data.region, data.engine = region, engine
            if i % 2:
                data.segment = engine.open(engine.name)
                data.transfer = data.segment.submit_write(b"x", region.address)
                data.transfer.wait(5)
            gone.append(weakref.ref(data))
            del engine, data, region
            gc.collect()
        assert not any(data() for data in gone), gone
        assert threads() <= before, (before, threads())
        # What is still reached stays.
        engine, data = Engine(), Owner(4096)
        data.region = engine.register(data)
        place = data.region.address
        del data; gc.collect()
        assert engine.open(engine.name).write(b"there", place) == 5
        """)
