"""Conditions that follow each other become one, in which values of no use elsewhere are deleted."""

from tapestry.teg.exporters.spmd.guards import with_joined_guards
from tapestry.teg.exporters.spmd.statements import Guard, Statement, StatementList, source_value, variable
from tapestry.teg.exporters.spmd.variable_names import last_reads


def guarded(condition: str, key: str, read: str) -> Statement:
    """Build `key = f(read)` under a condition, and zeros elsewhere."""
    inner = Statement(((0, f"{variable(key)} = f({variable(read)})"),), (key,), "[2, 0..3]")
    return Guard(condition, (inner,), ((key, "zeros(0)"),)).statement()


def test_equal_conditions_are_joined_and_only_what_is_read_later_is_set_elsewhere() -> None:
    made = [guarded("PART_0", "a", "x"), guarded("PART_0", "b", "a")]
    (joined,) = with_joined_guards(made, ["b"])
    assert [text for _, text in joined.rendered({"a": "a", "b": "b", "x": "x"}, ())] == [
        "if PART_0:",
        "a = f(x)",
        "b = f(a)",
        "del a",
        "else:",
        "b = zeros(0)",
    ]
    assert (joined.sets, joined.inner, joined.reads) == (("b",), ("a",), ("x",))
    assert dict(joined.notes) == {1: "[2, 0..3]", 2: "[2, 0..3]"}


def test_values_of_no_use_elsewhere_are_set_nowhere_else() -> None:
    (joined,) = with_joined_guards([guarded("PART_0", "a", "x")], [])
    assert [text for _, text in joined.lines][-1].startswith("del")
    assert joined.sets == ()


def test_other_conditions_stay_apart() -> None:
    made = [guarded("PART_0", "a", "x"), guarded("PART_1", "b", "a")]
    assert [s.sets for s in with_joined_guards(made, ["b"])] == [("a",), ("b",)]


def test_what_is_of_no_use_later_is_deleted_after_its_last_reader_inside() -> None:
    made = [guarded("PART_0", "a", "x"), guarded("PART_0", "b", "a"), guarded("PART_0", "c", "y")]
    (joined,) = with_joined_guards(made, ["c"])
    assert joined.guard is not None
    names = {key: key for key in "abcxy"}
    dying = last_reads(joined.guard.body, {"c", "y"})
    assert [text for _, text in joined.guard.statement(dying, ["x"]).rendered(names, ())] == [
        "if PART_0:",
        "a = f(x)",
        "del x",
        "b = f(a)",
        "del a, b",
        "c = f(y)",
        "else:",
        "del x",
        "c = zeros(0)",
    ]


def test_sources_are_given_up_where_a_condition_is_not_met_too() -> None:
    statements = StatementList([guarded("PART_0", "a", "x")])
    statements.done[0] = statements.done[0].replaced(variable("x"), source_value("s"))
    statements.take(0, "s")
    assert [text for _, text in statements.done[0].rendered({"a": "a"}, ['w["s"]', 'w["s"]'])] == [
        "if PART_0:",
        'a = f(w.pop("s"))',
        "else:",
        'w.pop("s")',
        "a = zeros(0)",
    ]
