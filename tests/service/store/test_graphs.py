"""Tests that graphs are addressed by content: the same one twice is one, and comes back as it was."""

from __future__ import annotations

import dataclasses
import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tapestry.hardware import load_mesh, mesh_names
from tapestry.service.store import Rewriting, Store, StoredGraph, UnknownId, mesh_of, mesh_to_document
from tapestry.service.store import codec as codec_module
from tapestry.teg.document import dumps
from tests.service.programs import NOON, finished_run, plan_by_hand, two_layers
from tests.service.store.submissions import later

SUMMARY = {"tensors": 6, "operators": {"contract": 2, "cell": 1}, "flops": 2**60 + 1}


def test_the_same_graph_twice_is_one_graph(store: Store) -> None:
    first, second = store.graphs.save(two_layers(), NOON), store.graphs.save(two_layers(), later(1))
    assert (first.is_new, second.is_new) == (True, False)
    assert first.id == second.id
    assert [(graph.id, graph.created_at) for graph in store.graphs.page()] == [(first.id, NOON)]


def test_the_same_graph_from_many_at_once_is_one_graph(store: Store) -> None:
    barrier = threading.Barrier(6)

    def save(number: int) -> tuple[str, bool]:
        barrier.wait()
        saved = store.graphs.save(two_layers(), later(number))
        return saved.id, saved.is_new

    with ThreadPoolExecutor(6) as pool:
        saved = list(pool.map(save, range(6)))
    assert len({graph_id for graph_id, _ in saved}) == 1
    assert sorted(is_new for _, is_new in saved) == [False] * 5 + [True]


def test_a_graph_comes_back_as_it_was(store: Store) -> None:
    graph = two_layers(with_weights=True)
    graph_id = store.graphs.save(graph, NOON).id
    assert store.graphs.load(graph_id) == graph
    assert gzip.decompress(store.graphs.document(graph_id)).decode() == dumps(graph)


def test_what_an_import_says_of_a_graph_is_kept(store: Store) -> None:
    graph_id = store.graphs.save(two_layers(), NOON, SUMMARY).id
    assert store.graphs.get(graph_id) == StoredGraph(graph_id, "two_layers", 7, False, NOON, SUMMARY)
    store.graphs.save(two_layers(), later(1))
    assert store.graphs.get(graph_id).summary == SUMMARY  # who says nothing takes nothing away


def test_a_graph_that_the_command_line_stored_gets_its_summary_later(store: Store) -> None:
    store.runs.save_finished(finished_run(two_layers()))
    graph_id = store.graphs.page()[0].id
    assert store.graphs.get(graph_id).summary is None
    assert not store.graphs.save(two_layers(), later(1), SUMMARY).is_new
    assert store.graphs.get(graph_id).summary == SUMMARY


def test_graphs_that_differ_in_a_name_or_in_a_weight_are_two(store: Store) -> None:
    one, changed = two_layers(with_weights=True), two_layers(with_weights=True)
    changed = dataclasses.replace(changed, data={"up": np.zeros_like(changed.data["up"])})
    graphs = (one, changed, two_layers("another", with_weights=True))
    assert len({store.graphs.save(graph, NOON).id for graph in graphs}) == 3


def test_large_values_are_left_out_but_still_distinguish_graphs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_module, "LARGEST_DATA_BYTES", 1000)
    one = two_layers(with_weights=True)
    other = dataclasses.replace(one, data={"up": np.zeros_like(one.data["up"])})
    first, second = store.graphs.save(one, NOON), store.graphs.save(other, NOON)
    assert first.id != second.id
    assert store.graphs.load(first.id) == dataclasses.replace(one, data={})
    assert all(graph.lacks_values for graph in store.graphs.page())


def test_rewritten_graphs_are_not_among_those_submitted(store: Store) -> None:
    finished = finished_run(two_layers())
    rewritten = plan_by_hand(two_layers("rewritten"), 3e-3, 2**18)
    result = dataclasses.replace(finished.result, frontier=(*finished.result.frontier, rewritten))
    store.runs.save_finished(dataclasses.replace(finished, result=result))
    assert [graph.name for graph in store.graphs.page()] == ["two_layers"]
    assert store.graphs.save(rewritten.graph, NOON).is_new


def test_lists_go_on_after_a_cursor_also_within_a_moment(store: Store) -> None:
    saved = {store.graphs.save(two_layers(f"program {k}"), later(k // 3)).id for k in range(7)}
    seen, before = [], None
    while page := store.graphs.page(limit=2, before=before):
        seen += [graph.id for graph in page]
        before = (page[-1].created_at, page[-1].id)
    assert len(seen) == 7 and set(seen) == saved
    assert store.graphs.page(limit=1)[0].name == "program 6"


def test_graphs_that_are_not_there_are_reported(store: Store) -> None:
    for ask in (store.graphs.get, store.graphs.load, store.graphs.document):
        with pytest.raises(UnknownId, match="there is no graph 'nonesuch'"):
            ask("nonesuch")


@pytest.mark.parametrize("name", mesh_names())
def test_every_mesh_is_stored_exactly(name: str) -> None:
    mesh = load_mesh(name)
    assert mesh_of(mesh_to_document(mesh)) == mesh


def test_a_graph_made_of_another_knows_how_and_what_was_known_stays(store: Store) -> None:
    source = store.graphs.save(two_layers(), NOON).id
    moves = ({"rule": "fuse", "place": ["a", "b"], "choice": ""},)
    made = Rewriting(source, "before", moves, NOON)
    saved = store.graphs.save_rewritten(two_layers("another"), made)
    again = store.graphs.save_rewritten(two_layers("another"), dataclasses.replace(made, moves=()))
    assert (saved.is_new, again.is_new, again.id) == (True, False, saved.id)
    (known,) = store.graphs.rewritings(saved.id)
    assert (known.source_id, known.part, list(known.moves)) == (source, "before", list(moves))
    assert store.graphs.save_rewritten(two_layers(), made).id == source
    assert store.graphs.rewritings(source) == ()
