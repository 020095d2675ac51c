"""A process that owns a pool of islands: prints the ids of its workers, then waits to be killed."""

from __future__ import annotations

import os
import sys
import time

from tapestry.optimizer import ProcessIslands


def main() -> None:
    islands = ProcessIslands(2)
    busy = [islands.submit(time.sleep, 0.5) for _ in range(2)]
    workers = {islands.submit(os.getpid).result() for _ in range(8)}
    for future in busy:
        future.result()
    sys.stdout.write(" ".join(map(str, sorted(workers))) + "\n")
    sys.stdout.flush()
    islands.submit(time.sleep, 600).result()


if __name__ == "__main__":
    main()
