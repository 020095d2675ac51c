"""Repeated stretches of sequences: found in all places, as long as they are everywhere."""

from tapestry.teg.exporters.spmd.repeats import repeats


def test_stretches_in_several_places_are_found_once_each() -> None:
    found = set(repeats([1, 2, 3, 9, 1, 2, 3, 8, 2, 3]))
    assert found == {(3, (0, 4)), (2, (1, 5, 8)), (1, (2, 6, 9))}


def test_runs_of_one_element_overlap() -> None:
    assert set(repeats([5, 5, 5])) == {(2, (0, 1)), (1, (0, 1, 2))}


def test_nothing_is_repeated_where_all_differ() -> None:
    assert list(repeats([1, 2, 3])) == []
