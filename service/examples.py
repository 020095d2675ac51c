"""Programs that come along: in the installed package, or beside the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from service.graphs import GraphFileError

DEMO_MODEL = "gpt2_small_b1_s1024.onnx"


@contextmanager
def example_model(name: str) -> Iterator[Path]:
    """The path of a model in `examples/models`.

    Raises:
        GraphFileError: this installation came without it.
    """
    beside = Path(__file__).resolve().parent.parent / "examples" / "models" / name
    if beside.is_file():
        yield beside
        return
    try:
        packed = files("examples") / "models" / name
        is_there = packed.is_file()
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise GraphFileError(f"this installation came without the example model {name!r}")
    with as_file(packed) as path:
        yield path
