r"""The notation of expressions over costs, such as `0.7*time_s + 0.3*energy_j`, read into terms.

    expression = product {("+" | "-") product}
    product    = factor {("*" | "/") factor}
    factor     = "-" factor | power
    power      = operand [("^" | "**") factor]
    operand    = number | name | "(" expression ")" | function "(" expression {"," expression} ")"

A name is a word, or any text in double quotes (`\"` and `\\` inside). Functions are `min` and `max` of two or more
and `sqrt` of one. Nothing is ever executed.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

from tapestry.costmodel.expressions import NamedTerm, NumberTerm, OperationTerm, Term

LONGEST = 1000  # characters
MOST_PARTS = 200  # numbers, names, signs, parentheses and commas
DEEPEST = 40  # parentheses, signs and powers within each other

FUNCTIONS = {"min": (2, "two or more"), "max": (2, "two or more"), "sqrt": (1, "one")}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r'|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<sign>\*\*|[-+*/^(),]))',
    re.ASCII,
)


class ExpressionError(ValueError):
    """Error raised for a text that is no expression; `at` is the position of the fault, counted from 0."""

    def __init__(self, text: str, at: int, message: str) -> None:
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        super().__init__(f"expression {shown!r}: at character {at + 1} {message}")
        self.at = at


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@lru_cache(maxsize=1024)
def parse(text: str) -> Term:
    """Parse an expression.

    Raises:
        ExpressionError: it has another form; the message says where and what was expected.
    """
    if len(text) > LONGEST:
        raise ExpressionError(text, LONGEST, f"it is longer than {LONGEST} characters")
    return _Parser(text).whole()


def split_at_commas(text: str) -> tuple[str, ...]:
    """Split a list at its commas, except those in parentheses or quotes; parts are stripped."""
    parts, depth, is_quoted, start = [], 0, False, 0
    for k, c in enumerate(text):
        if c == '"' and (k == 0 or text[k - 1] != "\\"):
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (c == "(") - (c == ")")
            if c == "," and depth <= 0:
                parts.append(text[start:k].strip())
                start = k + 1
    return (*parts, text[start:].strip())


class _Parser:
    """A recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.next = 0
        self.depth = 0

    def whole(self) -> Term:
        term = self._sum()
        if self._peek().kind != "end":
            raise self._error("an operator or the end")
        return term

    def _tokens(self) -> list[_Token]:
        found, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                message = (
                    "a quoted name does not end"
                    if self.text[at] == '"'
                    else f"{self.text[at]!r} has no meaning"
                )
                raise ExpressionError(self.text, at, message)
            kind = str(match.lastgroup)
            found.append(_Token(kind, match[kind], match.start(kind) - (kind == "quoted")))
            at = match.end()
            if len(found) > MOST_PARTS:
                raise ExpressionError(self.text, at, f"it has more than {MOST_PARTS} parts")
        return [*found, _Token("end", "the end", len(self.text))]

    def _peek(self) -> _Token:
        return self.tokens[self.next]

    def _take(self, *signs: str) -> str:
        """Take the next token if it is one of these signs; return it, else an empty text."""
        token = self._peek()
        if token.kind != "sign" or token.text not in signs:
            return ""
        self.next += 1
        return token.text

    def _error(self, expected: str) -> ExpressionError:
        token = self._peek()
        found = token.text if token.kind == "end" else repr(token.text)
        return ExpressionError(self.text, token.at, f"expected {expected}, not {found}")

    def _sum(self) -> Term:
        term = self._product()
        while sign := self._take("+", "-"):
            term = OperationTerm(sign, (term, self._product()))
        return term

    def _product(self) -> Term:
        term = self._factor()
        while sign := self._take("*", "/"):
            term = OperationTerm(sign, (term, self._factor()))
        return term

    def _factor(self) -> Term:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(self.text, self._peek().at, f"it is nested deeper than {DEEPEST} levels")
        term = OperationTerm("negative", (self._factor(),)) if self._take("-") else self._power()
        self.depth -= 1
        return term

    def _power(self) -> Term:
        term = self._operand()
        return OperationTerm("^", (term, self._factor())) if self._take("^", "**") else term

    def _operand(self) -> Term:
        token = self._peek()
        if token.kind == "number":
            self.next += 1
            if not math.isfinite(float(token.text)):
                raise ExpressionError(self.text, token.at, "the number is too large")
            return NumberTerm(int(token.text) if token.text.isdigit() else float(token.text))
        if token.kind == "quoted":
            self.next += 1
            return NamedTerm(re.sub(r"\\(.)", r"\1", token.text))
        if token.kind == "name":
            self.next += 1
            return self._function(token) if token.text in FUNCTIONS else NamedTerm(token.text)
        if self._take("("):
            term = self._sum()
            if not self._take(")"):
                raise self._error("an operator or ')'")
            return term
        raise self._error("a number, a name or '('")

    def _function(self, token: _Token) -> Term:
        if not self._take("("):
            raise self._error(f"'(' after {token.text}")
        operands = [self._sum()]
        while self._take(","):
            operands.append(self._sum())
        if not self._take(")"):
            raise self._error("an operator, ',' or ')'")
        least, arity = FUNCTIONS[token.text]
        if len(operands) < least or (least == 1 and len(operands) > 1):
            raise ExpressionError(self.text, token.at, f"{token.text} is of {arity}, not of {len(operands)}")
        if token.text == "sqrt":
            return OperationTerm("^", (operands[0], NumberTerm(0.5)))
        return OperationTerm(token.text, tuple(operands))
