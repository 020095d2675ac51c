"""Small expressions as text, computed as programs: `2 * [1, 0]`, `abs([3, -4]) + 1`.

Numbers, lists of numbers as tensors, `+ - * / // % ** @`, comparisons, and the functions that handles have
(`abs`, `exp`, `maximum`, `sum`, ...). Nothing in the text is executed as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.handle import Handle
from tapestry.teg.programs.program import Program, program

LONGEST = 10_000
BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
UNARY: Mapping[type[ast.AST], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


def compute(text: str) -> np.ndarray:
    """Compute the value of an expression; whole numbers are int64, others float64.

    Raises:
        ProgramError: no expression, unknown names, or shapes that do not fit.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval") if len(text) <= LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None:
        raise ProgramError(f"{text[:60]!r} is no expression; write it as 2 * [1, 0]")
    with program("expression") as p:
        p.output("value", _Reading(p, text).value(tree.body))
    return p.evaluate()["value"]


class _Reading:
    def __init__(self, p: Program, text: str) -> None:
        self.program, self.text = p, text
        self.constants = 0

    def value(self, node: ast.AST) -> Handle:
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return self._handle(BINARY[type(node.op)](self.value(node.left), self.value(node.right)))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in BINARY:
            left, right = self.value(node.left), self.value(node.comparators[0])
            return self._handle(BINARY[type(node.ops[0])](left, right))
        if isinstance(node, ast.Constant | ast.List) or self._is_negative(node):
            return self._constant(node)
        if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            return self._handle(UNARY[type(node.op)](self.value(node.operand)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and node.args:
            return self._call(node.func.id, [self.value(a) for a in node.args])
        raise ProgramError(f"{ast.unparse(node)[:60]!r} in {self.text[:60]!r} is no tensor expression")

    def _constant(self, node: ast.AST) -> Handle:
        array = np.array(self._literal(node))
        if array.dtype == object or array.dtype.kind not in "bif":
            raise ProgramError(f"{ast.unparse(node)[:60]!r} is no tensor of numbers")
        self.constants += 1
        return self.program.constant(f"number {self.constants}", array)

    def _literal(self, node: ast.AST) -> Any:
        if isinstance(node, ast.List):
            parts = [self._literal(e) for e in node.elts]
            if len({len(p) if isinstance(p, list) else -1 for p in parts}) > 1:
                raise ProgramError(f"the rows of {ast.unparse(node)[:60]!r} differ in length")
            return parts
        sign = -1 if self._is_negative(node) else 1
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        if isinstance(inner, ast.Constant) and isinstance(inner.value, bool | int | float):
            return sign * inner.value if sign < 0 else inner.value
        raise ProgramError(f"a list holds numbers, not {ast.unparse(node)[:60]!r}")

    def _is_negative(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
        )

    def _call(self, name: str, arguments: list[Handle]) -> Handle:
        method = None if name.startswith("_") else getattr(arguments[0], FUNCTIONS.get(name, name), None)
        if not callable(method):
            raise ProgramError(f"there is no function {name!r} of tensors")
        return self._handle(method(*arguments[1:]))

    def _handle(self, found: object) -> Handle:
        if not isinstance(found, Handle):
            raise ProgramError(f"{self.text[:60]!r} is not computed element by element")
        return found


# Names that mathematics uses, where handles have another.
FUNCTIONS = {"max": "maximum", "min": "minimum"}
