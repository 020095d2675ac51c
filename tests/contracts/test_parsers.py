"""Contract of all parsers: any input is read, or refused by a documented error, within a second.

`python -m tests.contracts.test_parsers 200000` tries so many inputs in all, and prints how long each parser took.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from math import ceil

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.cases import examples
from tests.contracts.parsers import PARSERS, Parser

LONGEST_S = 1.0
SMALL = 2000  # inputs of one run of the tests
PARTS = re.compile(r"\w+|\s+|[^\w\s]")
TOKENS = (
    *("0", "1", "-1", "2", "7", str(2**31), str(2**63), str(2**70), "1e308", "1e999", "nan", "inf", "0.5"),
    *(
        "",
        " ",
        "\n",
        "\t",
        "\0",
        "\ud800",
        "\u0663",
        "é",
        "🧵",
        "null",
        "true",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
    ),
    *(
        '"',
        "'",
        "\\",
        ".",
        "..",
        "/",
        "#",
        "<",
        ">",
        "=",
        "==",
        "+",
        "-",
        "*",
        "%",
        "@",
        "!",
        "?",
        "a",
        "x" * 300,
    ),
    *("[" * 200, "(" * 2000, "-" * 2000, '{"a":' * 300),
)


@st.composite
def damaged_texts(draw: st.DrawFn, seeds: Sequence[str]) -> str:
    """Build a text from right ones: tokens are dropped, doubled, exchanged, replaced, or others put in."""
    parts = PARTS.findall(draw(st.sampled_from(seeds)))
    others = PARTS.findall(draw(st.sampled_from(seeds))) or [""]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(parts)))
        how = draw(st.sampled_from(["put", "put", "replace", "drop", "double", "other", "cut"]))
        token = draw(st.sampled_from(TOKENS))
        if how == "put":
            parts.insert(place, token)
        elif how == "replace":
            parts[place : place + 1] = [token]
        elif how == "drop":
            del parts[place : place + draw(st.integers(1, 5))]
        elif how == "double":
            parts[place:place] = parts[place : place + draw(st.integers(1, 20))]
        elif how == "other":
            parts[place : place + 1] = [others[draw(st.integers(0, len(others) - 1))]]
        else:
            del parts[place:]
    return "".join(parts)


@st.composite
def damaged_bytes(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Build bytes from right ones: some are replaced, dropped or put in, or the end is cut off."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        how = draw(st.sampled_from(["replace", "replace", "put", "drop", "cut"]))
        if how == "replace":
            content[place : place + 1] = bytes([draw(st.integers(0, 255))])
        elif how == "put":
            content[place:place] = draw(st.binary(min_size=1, max_size=4))
        elif how == "drop":
            del content[place : place + draw(st.integers(1, 4))]
        else:
            del content[place:]
    return bytes(content)


def strategy(parser: Parser) -> st.SearchStrategy[str | bytes]:
    if isinstance(parser.seeds[0], bytes):
        return damaged_bytes(parser.seeds) | st.binary(max_size=60)
    return damaged_texts(parser.seeds) | st.text(max_size=60)


def outcome(parser: Parser, content: str | bytes) -> tuple[str, float]:
    """Return how a parser took an input (`read`, `refused`, or the error that it does not document), and seconds."""
    began_s = time.process_time()
    try:
        with warnings.catch_warnings(action="ignore"):
            parser.read(content)
        how = "read"
    except parser.errors as error:
        how = "refused" if str(error).strip() else f"{type(error).__name__} without a message"
    except SystemExit as end:  # --help of a command line
        how = "read" if end.code == 0 else "an exit"
    except Exception as error:
        how = f"{type(error).__name__}: {error}"
    return how, time.process_time() - began_s


def of_this_run(parser: Parser) -> int:
    return max(ceil(SMALL * parser.share / 1000), 10)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_right_inputs_are_read(parser: Parser) -> None:
    assert any(outcome(parser, right)[0] == "read" for right in parser.seeds)


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_any_input_is_read_or_refused(parser: Parser) -> None:
    outcome(parser, parser.seeds[0])  # what it needs is loaded, which is no part of an input's time

    @settings(
        max_examples=examples(of_this_run(parser)), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(content=strategy(parser))
    def check(content: str | bytes) -> None:
        how, took_s = outcome(parser, content)
        assert how in ("read", "refused"), how
        assert took_s < LONGEST_S

    check()


class Attempts:
    """A count of what happened to the inputs of one parser: how often each, with an example, and the slowest."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.found: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.slowest: tuple[float, str] = (0.0, "")

    @property
    def is_well(self) -> bool:
        return set(self.found) <= {"read", "refused"} and self.slowest[0] < LONGEST_S

    def make(self, count: int, start: int) -> None:
        """Try so many inputs."""

        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @seed(start)
        @given(content=strategy(self.parser))
        def attempt(content: str | bytes) -> None:
            how, took_s = outcome(self.parser, content)
            self.found[how[:90]] += 1
            self.examples.setdefault(how[:90], repr(content)[:300])
            self.slowest = max(self.slowest, (took_s, repr(content)[:300]))

        attempt()

    def print(self) -> None:
        found = self.found
        print(
            f"{self.parser.name}: {found.total()} inputs, {found['read']} read, {found['refused']} refused, "
            f"the slowest in {self.slowest[0]:.3f} s",
            flush=True,
        )
        for how in set(found) - {"read", "refused"}:
            print(f"    {found[how]} x {how}\n        {self.examples[how]}", flush=True)
        if self.slowest[0] >= LONGEST_S:
            print(f"    slow: {self.slowest[1]}", flush=True)


def try_many(total: int, start: int) -> bool:
    """Try so many inputs in all, and print what happened; return whether each was read or refused in time."""
    whole = sum(parser.share for parser in PARSERS)
    attempts = [Attempts(parser) for parser in PARSERS]
    for one in attempts:
        outcome(one.parser, one.parser.seeds[0])
        one.make(ceil(total * one.parser.share / whole), start)
        one.print()
    return all(one.is_well for one in attempts)


if __name__ == "__main__":
    sys.exit(not try_many(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
