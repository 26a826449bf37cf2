"""Runs the tests of this folder and prints their results in the form of Rust's test harness.

    run.py [--list] [PART-OF-A-NAME ...]

A test is a function `test_*` in a module `test_*.py`; its name is `module::name`. It passes by returning, is skipped
by calling `support.skip(reason)` and fails by any other exception. What it prints is shown after the run; lines that
begin with `row ` are figures. The variable TE_SKIP_LOG names the file that takes the names and reasons of skips.
Each test has a limit in seconds, by default 60, so that one that hangs is a failure and not a suite without an end.
"""
import contextlib
import importlib
import io
import os
import pathlib
import signal
import sys
import time
import traceback

import support

HERE = pathlib.Path(__file__).resolve().parent
USUAL_LIMIT = 60


class TooLong(BaseException):
    """The test ran past its limit."""


def collect(wanted):
    """Every test as (name, function), in the order of the modules' names and of their sources."""
    tests = []
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(path.stem)
        short = path.stem.removeprefix("test_")
        own = [f for n, f in vars(module).items() if n.startswith("test_") and callable(f)]
        named = [(f"{short}::{f.__name__.removeprefix('test_')}", f) for f in own]
        tests += [t for t in named if not wanted or any(part in t[0] for part in wanted)]
    return tests


def on_alarm(_signal, _frame):
    raise TooLong


def run_one(name, function):
    """Runs one test; returns (verdict, what it printed, seconds)."""
    printed = io.StringIO()
    limit = getattr(function, "limit", USUAL_LIMIT)
    verdict = "ok"
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(limit)
    begun = time.monotonic()
    try:
        with contextlib.redirect_stdout(printed):
            function()
    except support.Skip as why:
        note_skip(name, str(why))
    except TooLong:
        verdict = "FAILED"
        printed.write(f"panicked at {name}:\nstill running after {limit} s\n{traceback.format_exc(limit=-4)}")
    except BaseException as error:
        verdict = "FAILED"
        printed.write(f"panicked at {name}:\n{type(error).__name__}: {error}\n{traceback.format_exc()}")
    finally:
        signal.alarm(0)
        try:
            support.end_nodes()
        except Exception as error:
            verdict = "FAILED"
            printed.write(f"panicked at {name}:\nthe nodes did not end: {error}\n")
    return verdict, printed.getvalue(), time.monotonic() - begun


def note_skip(name, reason):
    log = os.environ.get("TE_SKIP_LOG")
    if log:
        with open(log, "a") as file:
            file.write(f"{name}\t{reason}\n")
    else:
        print(f"skipped {name}: {reason}")


def main():
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    tests = collect(wanted)
    if "--list" in sys.argv:
        print("\n".join(name for name, _ in tests))
        return 0
    print(f"running {len(tests)} tests", flush=True)
    good, bad = [], []
    for name, function in tests:
        verdict, printed, _ = run_one(name, function)
        (good if verdict == "ok" else bad).append((name, printed))
        print(f"test {name} ... {verdict}", flush=True)
    support.end_nodes(kept_too=True)
    show("successes", good)
    show("failures", bad)
    word = "FAILED" if bad else "ok"
    print(f"\ntest result: {word}. {len(good)} passed; {len(bad)} failed; 0 ignored; 0 measured; 0 filtered out")
    return 101 if bad else 0


def show(title, tests):
    spoke = [(name, text) for name, text in tests if text.strip()]
    if not spoke:
        return
    print(f"\n{title}:\n")
    for name, text in spoke:
        print(f"---- {name} stdout ----\n{text}")


if __name__ == "__main__":
    sys.exit(main())
