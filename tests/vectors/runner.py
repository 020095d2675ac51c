"""A runner of vector cases: loading a file, comparing an answer, reporting the result."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Values = dict[str, Any]
Adapter = Callable[[Values, Values], Values]
"""From a case's input, and what it asks (see `ask`), to the product's answer."""

EXPLANATIONS = ("note", "why", "post")
DISPUTED = Path(__file__).parent / "disputed.json"


class Verdict(NamedTuple):
    """The result of a case: `outcome` is passed, failed or disputed."""

    id: str
    outcome: str
    expected: Any = None
    actual: Any = None


def load(path: Path) -> list[Values]:
    """Load the cases of a file.

    Raises:
        ValueError: it is not a list of cases.
    """
    cases = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(cases, list) or not all(
        isinstance(c, dict) and {"id", "kind", "input", "expect"} <= c.keys() for c in cases
    ):
        raise ValueError(f"{path} is no list of cases with id, kind, input and expect")
    return cases


def run(case: Values, adapters: Mapping[str, Adapter], disputed: Mapping[str, str]) -> Verdict:
    """Run one case against the product; a disputed case that fails is not a failure, its proof is shown."""
    verdict = _verdict_of(case, adapters)
    if verdict.outcome == "failed" and verdict.id in disputed:
        return verdict._replace(outcome="disputed", actual=disputed[verdict.id])
    return verdict


def disputes(path: Path = DISPUTED) -> dict[str, str]:
    """Load the proof, by id, that a case's expectation is wrong."""
    return {entry["id"]: entry["proof"] for entry in json.loads(path.read_text(encoding="utf-8"))}


def _verdict_of(case: Values, adapters: Mapping[str, Adapter]) -> Verdict:
    wanted = {k: v for k, v in case["expect"].items() if k not in EXPLANATIONS}
    adapter = adapters.get(case["kind"])
    if adapter is None:
        return Verdict(case["id"], "failed", wanted, f"no adapter for {case['kind']!r}")
    try:
        answer = json.loads(json.dumps(adapter(case["input"], wanted)))
    except ValueError as refusal:
        answer = {"error": True, "error_text": str(refusal)}
    except Exception as crash:
        answer = {"crash": repr(crash)}
    wrong = list(_differences(wanted, answer))
    if wrong:
        return Verdict(case["id"], "failed", wanted, answer)
    return Verdict(case["id"], "passed")


def _differences(wanted: Values, answer: Values) -> Iterator[str]:
    for key, value in wanted.items():
        if key == "error_contains":
            good = value in answer.get("error_text", "")
        else:
            good = key in answer and same(value, answer[key])
        if not good:
            yield key


def same(a: Any, b: Any) -> bool:
    """Return whether JSON values are equal; floats to nine digits, numbers never equal to booleans."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, int | float) and isinstance(b, int | float) and math.isclose(a, b, rel_tol=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)
