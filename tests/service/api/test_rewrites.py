"""Tests of rewriting over HTTP: matches are listed, requested moves applied, stored and shown, others refused."""

from __future__ import annotations

from typing import Any

import pytest

import tapestry
from tapestry.rewrites import RULES, Move, replay
from tapestry.rewrites.worklist import find_tied
from tapestry.service.settings import Limits
from tapestry.teg.document import from_document
from tests.rewrites.test_pipelines import program
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.programs import NOON


def posted(service: Service) -> str:
    """Save a program with two softmaxes that can be decomposed, and return its id."""
    return service.store.graphs.save(program(), NOON).id


def rewritten(service: Service, graph_id: str, status: int = 201, **body: Any) -> dict[str, Any]:
    answer = service.http.post(f"/v1/graphs/{graph_id}/rewrites", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/graphs/{found['graph']['id']}"
    return found


def moves_of(stages: list[dict[str, Any]]) -> list[Move]:
    return [Move.from_json(move) for stage in stages for move in stage["moves"]]


def test_all_moves_are_listed_page_by_page(shared: Service) -> None:
    path = f"/v1/graphs/{posted(shared)}/rewrites"
    found, after = [], 0
    while after is not None:
        page = shared.http.get(path, params={"limit": 3, "after": after}).json()
        assert set(page["rules"]) == {move["rule"] for move in page["moves"]}
        found += [Move.from_json(move) for move in page["moves"]]
        after = page["next"]
    assert found == find_tied(program(), RULES)
    assert page["total"] == page["places"] == len(found) == 7


def test_a_list_is_narrowed_by_rules_families_and_kind(shared: Service) -> None:
    path = f"/v1/graphs/{posted(shared)}/rewrites"
    everything = [Move.from_json(move) for move in shared.http.get(path).json()["moves"]]
    query = [("families", "expansions"), ("families", "algebra"), ("kind", "semantic")]
    expected = [m for m in everything if m.rule in ("expand_softmax", "stream_softmax", "hoist_from_cell")]
    page = shared.http.get(path, params=query).json()
    assert [Move.from_json(m) for m in page["moves"]] == expected
    assert {rule["family"] for rule in page["rules"].values()} == {"expansions"}
    page = shared.http.get(path, params={"rules": "expand_softmax, fuse_cells"}).json()
    assert {move["rule"] for move in page["moves"]} == {"expand_softmax"}


def test_listed_moves_are_made_kept_and_reported(shared: Service) -> None:
    graph_id = posted(shared)
    listed = shared.http.get(f"/v1/graphs/{graph_id}/rewrites", params={"rules": "expand_softmax"}).json()
    made = rewritten(shared, graph_id, moves=listed["moves"], name="spelled out")
    after = from_document(shared.http.get(made["graph"]["links"]["document"]).json())
    assert after.structural_hash == replay(program(), map(Move.from_json, listed["moves"])).structural_hash
    assert made["blocks"] == {"before": len(program().blocks), "after": len(after.blocks)}
    assert made["graph"]["name"] == "spelled out" and made["graph"]["summary"]["blocks"] == len(after.blocks)
    (reported,) = shared.http.get(made["graph"]["links"]["history"]).json()["items"]
    assert (reported["source"], reported["part"], reported["moves"]) == (graph_id, None, listed["moves"])
    assert shared.http.get(f"/v1/graphs/{graph_id}/history").json()["items"] == []
    assert (
        rewritten(shared, graph_id, 200, moves=listed["moves"], name="spelled out")["graph"] == made["graph"]
    )


@pytest.mark.parametrize(
    ("requested", "stages"),
    [
        ({"rules": ["expand_softmax"], "mode": "once"}, ["once"]),
        ({"families": ["expansions"], "kind": "semantic"}, ["fixpoint"]),
        ({"pipeline": "standard"}, ["expand", "simplify", "search", "fuse"]),
        ({}, ["fixpoint"]),
    ],
)
def test_the_moves_of_every_mode_replay(
    shared: Service, requested: dict[str, Any], stages: list[str]
) -> None:
    graph_id = posted(shared)
    answer = shared.http.post(f"/v1/graphs/{graph_id}/rewrites", json=requested)
    assert answer.status_code in (200, 201)
    made = answer.json()
    assert [stage["stage"] for stage in made["stages"]] == stages
    after = from_document(shared.http.get(made["graph"]["links"]["document"]).json())
    assert replay(program(), moves_of(made["stages"])).structural_hash == after.structural_hash


STALE = {"rule": "expand_softmax", "place": "nowhere"}
GONE = {"rule": "expand_softmx", "place": "one"}
TWICE = [{"rule": "expand_softmax", "place": "one"}] * 2


@pytest.mark.parametrize(
    ("requested", "pointer", "message"),
    [
        ({"moves": [TWICE[0], STALE]}, "/moves/1", "there is no block 'nowhere'"),
        ({"moves": TWICE}, "/moves/1", "there is no block 'one'"),
        ({"moves": [GONE]}, "/moves/0", "there is no rule 'expand_softmx'"),
        ({"moves": [{"rule": "expand_softmax"}]}, "/moves/0/place", "it is missing"),
        ({"moves": [], "mode": "once"}, "/moves", "moves say what is done; leave mode out"),
        ({"rules": ["fuse_cells", "odd_rule"]}, "/rules/1", "there is no rule 'odd_rule'"),
        (
            {"families": ["fussion"]},
            "/families/0",
            "there is no family of rules 'fussion'; did you mean fusion",
        ),
        ({"kind": "odd"}, "/kind", "known are semantic, optimization"),
        ({"mode": "twice"}, "/mode", "known are once, fixpoint"),
        ({"pipeline": "fast"}, "/pipeline", "there is no pipeline 'fast'; known are standard"),
        ({"pipeline": "standard", "rules": []}, "/pipeline", "leave rules out"),
    ],
)
def test_what_cannot_be_made_is_reported_at_its_place(
    shared: Service, requested: dict[str, Any], pointer: str, message: str
) -> None:
    answer = shared.http.post(f"/v1/graphs/{posted(shared)}/rewrites", json=requested)
    faults = {fault["pointer"]: fault for fault in complaint(answer, 422, "invalid")["errors"]}
    assert message in faults[pointer]["detail"]


def test_near_names_are_offered(shared: Service) -> None:
    path = f"/v1/graphs/{posted(shared)}/rewrites"
    for answer, pointer in (
        (shared.http.post(path, json={"moves": [GONE]}), "/moves/0"),
        (shared.http.post(path, json={"rules": ["expand_softmx"]}), "/rules/0"),
        (shared.http.get(path, params={"rules": "expand_softmx"}), "#query/rules/0"),
    ):
        (fault,) = complaint(answer, 422, "invalid")["errors"]
        assert (fault["pointer"], fault["allowed"][0]) == (pointer, "expand_softmax")


def test_there_is_nothing_of_a_program_that_is_not_there(shared: Service) -> None:
    for path in ("rewrites", "history"):
        complaint(shared.http.get(f"/v1/graphs/{'0' * 32}/{path}"), 404, "unknown_id")
    complaint(shared.http.post(f"/v1/graphs/{'0' * 32}/rewrites", json={}), 404, "unknown_id")


def test_what_grows_beyond_the_limit_is_not_kept(serve: Serve) -> None:
    service = serve(limits=Limits(graph_blocks=len(program().blocks)))
    path = f"/v1/graphs/{posted(service)}/rewrites"
    answer = service.http.post(path, json={"rules": ["expand_softmax"]})
    assert "blocks; at most" in complaint(answer, 413, "too_large")["detail"]
    assert len(service.http.get("/v1/graphs").json()["items"]) == 1


def scaled_product(service: Service) -> str:
    """Save a program whose weights and their scale can be multiplied once, before it runs, and return its id."""
    b = tapestry.program()
    x, w, s = b.input("x", row=3, k=4), b.parameter("w", k=4, out=5), b.parameter("s", out=5)
    b.output("y", x @ w * s)
    return service.store.graphs.save(b.graph, NOON).id


def test_a_divided_program_is_two_programs(shared: Service) -> None:
    graph_id = scaled_product(shared)
    made = rewritten(shared, graph_id, prepare=True)
    assert [stage["stage"] for stage in made["stages"]] == ["fixpoint", "fold"]
    assert made["before"]["summary"]["flops"] == 20
    assert made["flops"] == {"before": 2 * 3 * 4 * 5 + 15, "after": 2 * 3 * 4 * 5}
    parts = {
        graph["id"]: shared.http.get(graph["links"]["history"]).json()["items"][0]["part"]
        for graph in (made["graph"], made["before"])
    }
    assert list(parts.values()) == ["program", "before"]


@pytest.mark.parametrize("field", ["rules", "families"])
def test_an_empty_name_in_a_query_is_refused(shared: Service, field: str) -> None:
    answer = shared.http.get(f"/v1/graphs/{posted(shared)}/rewrites?{field}=")
    message = complaint(answer, 422, "invalid")
    assert message["errors"][0]["pointer"] == f"#query/{field}"
    assert "expected names with commas in between, not ''" in message["detail"]


def test_a_rewritten_program_is_compared_with_the_one_it_was_made_from(shared: Service) -> None:
    graph_id = posted(shared)
    made = rewritten(shared, graph_id, rules=["expand_softmax"], name="compared")
    item = shared.http.get(made["graph"]["links"]["history"]).json()["items"][-1]
    changes = shared.http.get(item["links"]["changes"]).json()
    assert changes["rules"] == ["expand_softmax"] and changes["counts"]["made"] > 0
    assert changes["before"]["blocks"]["site"] == [b.site for b in program().blocks]
    assert len(changes["after"]["blocks"]["site"]) == made["blocks"]["after"]
    assert changes == shared.http.get(f"/v1/graphs/{made['graph']['id']}/changes").json()
    alone = complaint(shared.http.get(f"/v1/graphs/{graph_id}/changes"), 404, "unknown_id")
    assert "was not made from another one" in alone["detail"]
    path = f"/v1/graphs/{made['graph']['id']}/changes"
    other = complaint(shared.http.get(path, params={"source": "f" * 32}), 404, "unknown_id")
    assert other["errors"][0]["allowed"] == [graph_id]


def test_the_two_parts_of_a_prepared_program_are_compared_with_the_whole(shared: Service) -> None:
    made = rewritten(shared, scaled_product(shared), 200, prepare=True)
    for part in (made["graph"], made["before"]):
        changes = shared.http.get(f"/v1/graphs/{part['id']}/changes").json()
        assert changes["counts"]["kept"] > 0 < changes["counts"]["removed"]
