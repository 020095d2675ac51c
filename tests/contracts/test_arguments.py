"""Tests that every public function refuses wrong arguments in our words, and reports all faults of a call at once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tapestry
from tapestry.optimizer import Result
from tapestry.optimizer.api import PARAMETERS
from tapestry.optimizer.run.options import KEYWORDS
from tapestry.teg.faults import ArgumentError, value_text
from tapestry.teg.graph import Graph

WRONG: tuple[Any, ...] = (None, 3, "x", [], object())
# Words of Python and of libraries, which say nothing to the author of a call.
FOREIGN = re.compile(
    r"has no attribute|NoneType|takes [0-9]+ positional|required positional|unsupported operand|"
    r"not iterable|not callable|not subscriptable|os\.PathLike|unhashable|unpack|invalid literal|"
    r"has no len|format code|<object| at 0x"
)
GPT2 = Path(__file__).parents[2] / "examples" / "models" / "gpt2_small_b1_s1024.onnx"
NODES = GPT2.parents[2] / "tests" / "data" / "graphs" / "fx" / "train_mlp_784_4x4096_b1024_sgd.json.gz"
MODULE = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}\n"
QUICK: dict[str, Any] = {"evaluations": 1, "islands": 1}
# A sound call of each public function; arguments that are not here have their defaults.
CALLS: dict[str, dict[str, Any]] = {
    "Budget": {"evaluations": 1},
    "Constraint": {"objective": "time_s", "bound": 1.0},
    "from_jax": {"function": lambda x: x * 2.0, "x": 1.0},
    "from_onnx": {"source": GPT2},
    "from_stablehlo": {"source": MODULE},
    "from_torch": {"source": NODES},
    "load_mesh": {"name_or_path": "dgx-h100"},
    "optimize": {"program": None, "mesh": "dgx-h100", **QUICK},
    "program": {},
    "read_program": {"path": GPT2},
    "sharding_table": {"found": None},
    "simulate": {"found": None},
    "training_step": {"program": None},
    "verify": {"found": None},
    "verify_frontier": {"found": None},
}
# Values that are sound, whose calls would start processes, search for ten seconds or read a large model.
SOUND: dict[tuple[str, str], tuple[Any, ...]] = {
    ("optimize", "islands"): (None, 3),
    ("optimize", "evaluations"): (None,),
    **{("from_onnx", argument): (None,) for argument in ("dims", "name", "external_data")},
    **{("read_program", argument): (None,) for argument in ("dims", "external_data")},
}
METHODS: dict[str, Callable[..., Any]] = {"from_networkx": Graph.from_networkx, "plot": Result.plot}
EVERYTHING_ELSE = ("example", "arguments", "keywords")  # what importers pass on to the user's own function


def small() -> Graph:
    with tapestry.program("net") as p:
        x = p.input("x", batch=16, features=32)
        p.output("y", (x @ p.parameter("w", features=32, out=8)).relu())
    return p.graph


@pytest.fixture(scope="module")
def result() -> Result:
    return tapestry.optimize(small(), "dgx-h100", **QUICK)


def public(name: str) -> Callable[..., Any]:
    return METHODS[name] if name in METHODS else getattr(tapestry, name)


def arguments_of(name: str) -> Iterator[str]:
    """Yield the arguments of a public function, the options of a run among those of `optimize`."""
    for parameter in inspect.signature(public(name)).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and name == "optimize":
            yield from sorted({*KEYWORDS, *PARAMETERS, "options"} - {"objectives"})
        elif parameter.name not in (*EVERYTHING_ELSE, "self"):
            yield parameter.name


def sound(name: str, result: Result) -> dict[str, Any]:
    values = {"found": result, "program": result.graph, "self": result}
    given = {"self": None} if name == "plot" else CALLS.get(name, {})
    return {
        argument: values.get(argument, value) if value is None else value for argument, value in given.items()
    }


@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, argument) for name in (*tapestry.__all__, *METHODS) for argument in arguments_of(name)],
)
def test_a_wrong_argument_is_refused_in_our_words(name: str, argument: str, result: Result) -> None:
    for wrong in WRONG:
        if wrong in SOUND.get((name, argument), ()):
            continue
        try:
            public(name)(**{**sound(name, result), argument: wrong})
        except Exception as error:
            text = str(error)
            assert type(error).__module__.startswith("tapestry."), f"{wrong!r}: {type(error)}: {text}"
            assert argument in text or value_text(wrong) in text, f"{wrong!r}: {text}"
            assert not FOREIGN.search(text), f"{wrong!r}: {text}"
            assert "\n" not in text
        else:
            assert type(wrong) is not object, f"{name}({argument}=object()) is accepted"


def test_all_faults_of_a_call_come_in_one_error() -> None:
    with pytest.raises(ArgumentError) as caught:
        tapestry.optimize(small(), "dgx-h10", objectives=["tme_s"], rules=["nope"], seconds=-1, budgt=3)
    assert [re.sub(r"; (known|see) .*", "", fault) for fault in caught.value.faults] == [
        "mesh: there is no mesh 'dgx-h10'; did you mean dgx-h100 or dgx-h200 or dgx-a100?",
        "seconds: expected a number above 0, not -1",
        "objectives[0]: there is no objective 'tme_s'; did you mean time_s?",
        "rules[0]: there is no rule 'nope'",
        "optimize() has no option 'budgt'; did you mean budget?",
    ]


def test_faults_of_types_and_of_values_come_together(result: Result) -> None:
    with pytest.raises(ArgumentError) as caught:
        tapestry.optimize(
            small(), 3, "time_s", options=3, start_from=result, budget=3, on_chekpoint=print, pins={"yy": "["}
        )
    places = [fault.partition(":")[0].partition(" has")[0] for fault in caught.value.faults]
    assert places == [
        "mesh",
        "objectives",
        "pins['yy']",
        "pins['yy']",
        "optimize()",
        "options",
        "budget",
        "start_from",
    ]
    assert "did you mean on_checkpoint" in str(caught.value)
    assert "write start_from=result.frontier" in str(caught.value)
