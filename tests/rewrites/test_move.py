"""Tests of moves as values."""

import pytest

from tapestry.rewrites import Move


def test_a_move_prints_what_was_done_where() -> None:
    assert str(Move("fuse_cells", "h.0.gelu")) == "fuse_cells at h.0.gelu"
    assert str(Move("order_contract", "y", "0,2")) == "order_contract at y [0,2]"
    assert str(Move("reshard", ("a", "b", "c"), "(gpu.0)")) == "reshard at a and 2 more [(gpu.0)]"


@pytest.mark.parametrize("move", [Move("r", "p"), Move("r", "p&q", "c@1"), Move("r", ("a", "b"), "c")])
def test_a_move_survives_json(move: Move) -> None:
    assert Move.from_json(move.to_json()) == move


def test_a_place_is_a_text_and_tied_places_are_a_list() -> None:
    assert Move("r", "p").to_json() == {"rule": "r", "place": "p", "choice": ""}
    assert Move("r", ("a", "b")).to_json()["place"] == ["a", "b"]
    assert list(Move("r", ("a", "b"), "c").single()) == [Move("r", "a", "c"), Move("r", "b", "c")]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"rule": "r"},
        {"rule": "r", "place": 3},
        {"rule": "r", "place": []},
        {"rule": "r", "place": "p", "extra": ""},
        {"rule": "r", "place": ["a", 1]},
        {"rule": "r", "place": "p", "choice": None},
    ],
)
def test_what_is_no_move_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"rule and choice are texts|a move is an object"):
        Move.from_json(document)
