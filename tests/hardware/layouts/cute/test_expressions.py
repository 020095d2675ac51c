"""Tests of expressions in C++ spelling: what they print, and the refusal of malformed or hostile ones."""

import contextlib

import pytest

from tapestry.hardware.layouts.cute.expressions import evaluate
from tapestry.hardware.layouts.cute.functions import FUNCTIONS
from tapestry.hardware.layouts.cute.text import parse_strided, parse_tensor
from tapestry.hardware.layouts.cute.tuples import shown
from tapestry.hardware.layouts.layout import LayoutError


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("2 + 3 * Int<4>{}", "14"),
        ("-Int<7>{} / _2{}", "_-3"),
        ("(2 + 3) * E<0,1>{}", "5@1@0"),
        ("- - 3 - -2", "5"),
        ("Int<0>{} * 17 + Int<5>{}", "_5"),
        ("7 % _1{}", "_0"),
        ("3 < _4{} && _1{}", "1"),
        ("auto it = make_inttuple_iter(make_coord(1, 2)); it[E<1>{}];", "(1,3)"),
        ("Layout l = make_layout(make_shape(4, _5{}), GenRowMajor{}); l(_, 2)", "(4):(_5)"),
        ("auto a = 3; // three\n/* and */ a + 1", "4"),
        ("cute::make_shape(1, cute::make_shape(Int<2>{}))", "(1,(_2))"),
        ("make_swizzle<0b11000000, 0b00000110>()", "Sw<2,1,5>"),
        ("make_layout(make_shape(4, 5)).template shape<1>()", "5"),
        ("crd2idx(make_coord(3, 5), Layout<Shape<_4,Shape<_2,_3>>, Stride<_2,Stride<_1,_8>>>{})", "23"),
    ],
)
def test_operators_templates_and_calls_read_as_in_cpp(text: str, printed: str) -> None:
    assert shown(evaluate(text)) == printed


def test_a_tensor_is_printed_with_its_rules_between_matrices() -> None:
    text = shown(evaluate("print_tensor(make_tensor(counting_iterator<int>(0), make_shape(2, 2, 2)))"))
    assert text.splitlines() == [
        "counting_iter(0) o (2,2,2):(_1,2,4):", "    0    2", "    1    3", "----------", "    4    6", "    5    7",
    ]  # fmt: skip


def test_texts_are_read_back() -> None:
    tensor = "ArithTuple(0,_0,_0,_0) o ((_128,_64),2,3,1):((_1@0,_1@1),_64@1,_1@2,_1@3)"
    assert str(parse_tensor(tensor)) == tensor
    assert str(parse_strided("((2,3),(4,2)):((_1@0@0,_1@1@0),(_1@1,4@1))")).endswith("(_1@1,4@1))")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at character 0: expected a number, a name or '\\('"),
        ("1 +", "at character 3: expected a number, a name or '\\(', not the end of the text"),
        ("make_coord(1, 2", r"at character 15: expected ',' or '\)'"),
        ("frobnicate(1)", "at character 0: expected a name of CuTe's, not 'frobnicate"),
        ("1 2", "at character 2: expected the end of the text, not '2'"),
        ("E<0>{} + E<0,1>{}", "op\\+ error"),
        ("Int<1>{} + E<1>{}", "ScaledBasis op\\+ error"),
        ("make_tuple(1,2) + make_tuple(1,2)", "Arithmetic tuple op\\+ error"),
        ("5 / 0", "a divisor other than 0"),
        ("get<2>(make_tuple(1,2))", "Index out of range"),
        ("E<99999999>{}", "modes of a basis element from 0 to 255"),
        ("repeat<99999999>(1)", "expected 0 to 1024 repetitions"),
        ("(" * 400 + "1" + ")" * 400, "at most 64 levels of nesting"),
        ("Shape<" * 400, "at most 64 levels of nesting"),
        ("999999999999999999999999", "an integer of 64 bits"),
        (
            "print_tensor(make_identity_tensor(make_shape(100000,100000)))",
            "at most 65536 elements to print",
        ),
        ("auto a = 9; " + "a = a * a; " * 9 + "a", "expected integers of 64 bits"),
        ("repeat<100>(repeat<100>(1))", "expected at most 4096 entries"),
        ("auto a = 1; " + "a = make_tuple(a); " * 2000, "at most 64 levels of nesting"),
        ("auto a = 1; " + "a = make_arithmetic_tuple(a); " * 2000, "at most 64 levels of nesting"),
        ("auto a = 9 * E<0>{}; " + "a = a * 999999999; " * 3, "expected integers of 64 bits"),
        ("auto a = 1; " + "a = make_tuple(a, a); " * 40, "expected at most 4096 entries"),
        ("__import__", "expected a name of CuTe's"),
        ("make_layout()", "expected 1 or more arguments of make_layout, not 0"),
        ("size(_)", "expected an integer, a basis element or a tuple"),
        ("3[2]", "expected a layout, a tensor or an iterator"),
    ],
)
def test_what_does_not_read_or_compile_is_refused(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        evaluate(text)


def test_every_function_has_one_meaning_for_its_name() -> None:
    names = [name for function in FUNCTIONS for name in function.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(name for function in FUNCTIONS for name in function.names))
def test_wrong_arguments_are_refused_or_meant(name: str) -> None:
    for arguments in ("()", "(1)", "(_)", "(E<1>{},_)", "((1),_2{},3)", "<>(1)", "<-1>(1,2)", "<int>{}"):
        with contextlib.suppress(LayoutError):
            assert shown(evaluate(name + arguments)), arguments
