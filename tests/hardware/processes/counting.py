"""A process of the pool in which the test itself counts what `torch.distributed` is told to receive."""

from __future__ import annotations

from collections.abc import MutableSequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tapestry.hardware.processes.worker import serve


def serve_counted(folder: str, process: int, progress: MutableSequence[int], pipe: Connection) -> None:
    """Serve, and keep the bytes received so far in a file named by the process."""
    import torch.distributed

    receive, path, total = torch.distributed.irecv, Path(folder) / str(process), 0
    path.write_text("0")

    def counted(tensor: Any, source: int) -> Any:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        path.write_text(str(total))
        return receive(tensor, source)

    torch.distributed.irecv = counted
    serve(process, progress, pipe)
