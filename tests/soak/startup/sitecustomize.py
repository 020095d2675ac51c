"""Loaded by Python at the start of processes whose clock jumps: another way to sleep.

libfaketime 0.9.10 refuses the call by which Python 3.11 sleeps: until a moment of monotonic time (clock_nanosleep).
"""

import select
import time


def sleep(seconds: float) -> None:
    """Wait for some seconds, as `time.sleep`."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select((), (), (), seconds)


time.sleep = sleep
