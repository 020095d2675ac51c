"""Example programs supplied with Tapestry: beside this package, in the source and in an installation alike."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tapestry.teg.importers.files import GraphFileError

DEMO_MODEL = "gpt2_small_b1_s1024.onnx"
DEMO_EXECUTION_SECONDS = 900.0  # on a slow machine too, three plans are executed


def model_beside(folder: Path, model: str) -> Path:
    """Return the path of a model that a batch names: a file beside it, else one that comes with the installation."""
    beside = folder / model
    if not beside.exists() and "/" not in model:
        for name in (model, f"{model}.onnx"):
            with suppress(GraphFileError):
                return example_model(name)
    return beside


def example_model(name: str) -> Path:
    """Return the path of a model in `examples/models`.

    Raises:
        GraphFileError: this installation does not contain it.
    """
    path = Path(__file__).resolve().parent.parent / "examples" / "models" / name
    if not path.is_file():
        raise GraphFileError(
            f"this installation came without the example model {name!r} (looked for {str(path)!r})"
        )
    return path
