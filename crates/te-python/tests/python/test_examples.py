"""The examples run to their end and say that every byte was checked."""
import support
from support import CRATE


def run(name, *words):
    done = support.program([CRATE / "examples" / name, *words], timeout=55)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-1500:]}"
    assert "checked" in done.stdout, done.stdout
    for line in done.stdout.splitlines():
        print(f"row {name}: {line}")


def test_prefill_decode():
    run("prefill_decode.py", "--requests", 8)


def test_prefill_decode_of_many_small_blocks():
    run("prefill_decode.py", "--layers", 16, "--blocks", 64, "--block-bytes", 4096, "--requests", 4)


def test_weight_broadcast():
    run("weight_broadcast.py", "--workers", 3)
