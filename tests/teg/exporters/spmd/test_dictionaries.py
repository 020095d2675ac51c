"""Dictionaries of a module: entries whose names differ in a number are a loop, and make the same dictionary."""

from tapestry.teg.exporters.spmd.dictionaries import dictionary_lines, dictionary_of_names


def evaluated(lines: list[str]) -> dict[str, object]:
    scope: dict[str, dict[str, object]] = {}
    exec("\n".join(lines), {}, scope)
    return scope["D"]


def test_layers_are_a_loop_with_a_name_for_what_their_names_begin_with() -> None:
    entries = {f"m.h.{i}.{name}": str(len(name)) for i in range(12) for name in ("a.w", "a.bias", "b")}
    lines = dictionary_lines("D", {"wpe": "7", **entries}, set())
    assert lines == [
        'D = {"wpe": 7}',
        "for i in range(12):",
        '    h = f"m.h.{i}"',
        '    D |= {f"{h}.a.w": 3, f"{h}.a.bias": 6, f"{h}.b": 1}',
    ]
    assert evaluated(lines) == {"wpe": 7, **{name: int(text) for name, text in entries.items()}}


def test_entries_that_differ_from_the_others_stand_alone() -> None:
    entries = {f"h.{i}": "2" if i == 3 else "1" for i in range(6)}
    lines = dictionary_lines("D", entries, set())
    assert lines == ['D = {"h.3": 2}', "for i in (0, 1, 2, 4, 5):", '    D[f"h.{i}"] = 1']


def test_a_text_may_follow_the_number_of_its_name() -> None:
    entries = {f"next.{i}.w": f"h.{i}.w" for i in range(4)}
    lines = dictionary_of_names("D", entries, set())
    assert len(lines) == 3
    assert evaluated(lines) == {f"next.{i}.w": f"h.{i}.w" for i in range(4)}


def test_names_of_the_module_are_not_set_by_the_loop() -> None:
    entries = {f"m.step.{i}.{name}": "1" for i in range(3) for name in "abc"}
    assert '    step_2 = f"m.step.{i}"' in dictionary_lines("D", entries, {"step"})
    entries = {f"int{i} {name}": "1" for i in range(3) for name in "abc"}
    assert '    int_2 = f"int{i}"' in dictionary_lines("D", entries, set())
