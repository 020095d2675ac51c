"""Symbolic sizes of a program: expressions over symbols to which the user gives numbers."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from tapestry.teg.faults import near_hint
from tapestry.teg.importers.failure import ImportFailure

FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "Add": lambda *a: sum(a),
    "Mul": lambda *a: math.prod(a),
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Integer": int,
}
OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
LONGEST_EXPRESSION = 2000
LARGEST_POWER = 8


class Sizes:
    """The numbers of a program's symbols, as far as they are given."""

    def __init__(self, given: Mapping[str, int] | None, program: str) -> None:
        self.given = dict(given or {})
        self.program = program
        self.read: set[str] = set()
        wrong = [f"{k}={v}" for k, v in self.given.items() if v < 0]
        if wrong:
            raise ImportFailure(f"{program}: a dimension's size is a number, not {', '.join(wrong)}")

    def number(self, expression: str, where: str) -> int:
        """Evaluate an expression as torch writes it (`2*s0`, `Mul(Integer(2), Symbol('s0'))`); nothing is executed.

        Raises:
            ImportFailure: a symbol has no number, or the expression is not one that sizes may have.
        """
        try:
            if len(expression) > LONGEST_EXPRESSION:
                raise ValueError
            return self._value(ast.parse(expression, mode="eval").body, where)
        except ImportFailure:
            raise
        except (
            SyntaxError,
            ValueError,
            TypeError,
            ZeroDivisionError,
            OverflowError,
            RecursionError,
            MemoryError,
        ):
            shown = expression if len(expression) < 80 else f"{expression[:80]}..."
            raise ImportFailure(
                f"{self.program}: {where} has a size that is no expression: {shown!r}"
            ) from None

    def _value(self, node: ast.expr, where: str) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return self._symbol(node.id, where)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand, where)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, where), self._value(node.right, where)
            if isinstance(node.op, ast.Pow):
                return self._power(left, right)
            return OPERATORS[type(node.op)](left, right) if type(node.op) in OPERATORS else self._refuse()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "Symbol" and node.args and isinstance(node.args[0], ast.Constant):
                return self._symbol(str(node.args[0].value), where)
            values = [self._value(a, where) for a in node.args]
            if node.func.id == "Pow":
                return self._power(*values)
            return FUNCTIONS[node.func.id](*values) if node.func.id in FUNCTIONS else self._refuse()
        return self._refuse()

    def _symbol(self, name: str, where: str) -> int:
        if name not in self.given:
            raise ImportFailure(
                f"{self.program} has dynamic shapes: {where} has a size that depends on {name!r}; give it one "
                f"(dims={{{name!r}: 8}}, --dim {name}=8), or export it with fixed sizes"
            )
        self.read.add(name)
        return self.given[name]

    def check_all_read(self) -> None:
        """Check that every number that is given was that of a symbol.

        Raises:
            ImportFailure: one was not.
        """
        unknown = [name for name in self.given if name not in self.read]
        if unknown:
            known = near_hint(unknown[0], sorted(self.read)) if self.read else "all its dimensions have sizes"
            raise ImportFailure(f"{self.program} has no dimension {unknown[0]!r} without a size; {known}")

    def _power(self, base: int, exponent: int) -> int:
        return int(base**exponent) if 0 <= exponent <= LARGEST_POWER else self._refuse()

    def _refuse(self) -> int:
        raise ValueError
