"""Commands that repeat themselves until they are to end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable

from tapestry.service.store import StoreError

RETRY_S = 60.0  # after an action that failed, unless it is repeated more often


def repeat(action: Callable[[], None], every_s: float) -> None:
    """Do an action now and after every interval until SIGTERM or Ctrl-C; a failure is reported, and tried again."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    pause_s = 0.0
    while not ending.wait(pause_s):
        try:
            action()
            pause_s = every_s
        except StoreError as error:
            pause_s = min(every_s, RETRY_S)
            print(f"tapestry: {error}; tried again in {pause_s:g} s", file=sys.stderr, flush=True)
        sys.stdout.flush()
