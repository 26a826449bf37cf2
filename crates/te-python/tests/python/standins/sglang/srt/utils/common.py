"""Two small functions of the tool box."""
import concurrent.futures


def ceil_align(n, unit):
    return -(-n // unit) * unit


def run_with_deadline(function, *, timeout_s, what):
    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        return pool.submit(function).result(timeout_s)
    except concurrent.futures.TimeoutError:
        raise RuntimeError(f"{what} took more than {timeout_s} s") from None
    finally:
        pool.shutdown(wait=False)
