"""The functions of element-wise expressions in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

from tapestry.teg.exporters.spmd.array_text import COMPARISON, PRODUCT, SUM

# Infix operators: text, and how tightly it binds.
INFIX: Mapping[str, tuple[str, int]] = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "eq": ("==", COMPARISON),
    "ne": ("!=", COMPARISON),
    "lt": ("<", COMPARISON),
    "le": ("<=", COMPARISON),
    "gt": (">", COMPARISON),
    "ge": (">=", COMPARISON),
}

# Functions whose result is a truth value: arguments are converted to a common type, not to bool.
TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge", "is_nan", "is_inf", "is_finite", "and", "or", "xor", "not")

# Functions of arrays; numbers among their arguments are written as arrays.
CALLS: Mapping[str, str] = {
    "abs": "torch.abs",
    "sign": "torch.sign",
    "square": "torch.square",
    "sqrt": "torch.sqrt",
    "rsqrt": "torch.rsqrt",
    "reciprocal": "torch.reciprocal",
    "exp": "torch.exp",
    "expm1": "torch.expm1",
    "log": "torch.log",
    "log1p": "torch.log1p",
    "erf": "torch.erf",
    "sigmoid": "torch.sigmoid",
    "relu": "torch.relu",
    "gelu": "F.gelu",
    "silu": "F.silu",
    "softplus": "F.softplus",
    "sin": "torch.sin",
    "cos": "torch.cos",
    "tan": "torch.tan",
    "asin": "torch.asin",
    "acos": "torch.acos",
    "atan": "torch.atan",
    "sinh": "torch.sinh",
    "cosh": "torch.cosh",
    "tanh": "torch.tanh",
    "floor": "torch.floor",
    "ceil": "torch.ceil",
    "round": "torch.round",
    "trunc": "torch.trunc",
    "acosh": "torch.acosh",
    "asinh": "torch.asinh",
    "atanh": "torch.atanh",
    "exp2": "torch.exp2",
    "log2": "torch.log2",
    "erf_inv": "torch.erfinv",
    "lgamma": "torch.lgamma",
    "digamma": "torch.digamma",
    "bessel_i1e": "torch.special.i1e",
    "is_nan": "torch.isnan",
    "is_inf": "torch.isinf",
    "is_finite": "torch.isfinite",
    "not": "torch.logical_not",
    "bit_not": "torch.bitwise_not",
    "fmod": "torch.fmod",
    "mod": "torch.remainder",
    "pow": "torch.pow",
    "min": "torch.minimum",
    "max": "torch.maximum",
    "and": "torch.logical_and",
    "or": "torch.logical_or",
    "xor": "torch.logical_xor",
    "bit_and": "torch.bitwise_and",
    "bit_or": "torch.bitwise_or",
    "bit_xor": "torch.bitwise_xor",
    "shift_left": "torch.bitwise_left_shift",
    "shift_right": "torch.bitwise_right_shift",
    "atan2": "torch.atan2",
    "zeta": "torch.special.zeta",
    "next_after": "torch.nextafter",
    "real": "torch.real",
    "imag": "torch.imag",
    "conj": "torch.conj_physical",
    "complex": "torch.complex",
}

# Functions of one array that torch also computes in its place, and what makes a new array by two.
IN_PLACE: Mapping[str, str] = {
    **{
        name: f"{CALLS[name].partition('.')[2]}_"
        for name in (
            *("abs", "sign", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "exp2", "log", "log1p"),
            *("log2", "erf", "erf_inv", "sigmoid", "relu", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc"),
            *("lgamma", "digamma"),
        )
    },
    "add": "add_",
    "sub": "sub_",
    "mul": "mul_",
    "div": "div_",
    "neg": "neg_",
}

# Functions written by means of `{0}` alone.
FORMULAS: Mapping[str, str] = {
    "gelu_tanh": 'F.gelu({0}, approximate="tanh")',
    "quick_gelu": "{0} * torch.sigmoid(1.702 * {0})",
    "cbrt": "torch.sign({0}) * torch.pow(torch.abs({0}), 1 / 3)",
    "round_away": (
        "torch.where(torch.abs(torch.frac({0})) >= 0.5, torch.trunc({0}) + torch.sign({0}), torch.trunc({0}))"
    ),
}
