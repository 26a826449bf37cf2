"""The program ``te``: ``te`` or ``python -m te_engine``."""

import sys


def main() -> None:
    """Runs the command line of this process, and exits with its code."""
    from te_engine._native import run_program

    again = [sys.executable, "-P", "-m", "te_engine"]
    sys.exit(run_program(again, ["te", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
