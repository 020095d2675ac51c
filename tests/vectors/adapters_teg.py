"""Adapters for the rules, costs, selectors and documents of the expression graph."""

import numpy as np

from tapestry.optimizer.archive.dominance import nondominated
from tapestry.teg.costs import cost_table
from tapestry.teg.importers.loom.constraints import constraint_issues
from tapestry.teg.importers.loom.model import parse, to_json
from tapestry.teg.zspace import ZRange
from tests.vectors.node_rules import node_issues
from tests.vectors.runner import Adapter, Values


def node_rule(v: Values, _: Values) -> Values:
    specified = ["Signature"] * v["signatures"] if "signatures" in v else v.get("deps")
    consumers = [v["consumer"]] if "consumer" in v else []
    issues = node_issues(v["type"], specified if specified != 0 else [], consumers, v.get("outputs"))
    return {"valid": not list(issues)}


def marginal_cost(v: Values, _: Values) -> Values:
    return {"cost_additive": cost_table(v.get("fixed"), v["table"]).price(v["index_shape"])}


def front(v: Values, _: Values) -> Values:
    points = np.array(v["points"], dtype=float)
    return {"front": [p for p, kept in zip(v["points"], nondominated(points), strict=True) if kept]}


def is_valid_loom(v: Values, _: Values) -> Values:
    graph, issues = parse(v["graph"])
    return {"valid": not (issues or constraint_issues(graph))}


def round_trip(v: Values, _: Values) -> Values:
    graph, issues = parse(v["json"])
    return {"roundtrip": to_json(graph) == v["json"], "valid": not (issues or constraint_issues(graph))}


TEG: dict[str, Adapter] = {
    "teg_node_rule": node_rule,
    "marginal_cost": marginal_cost,
    "pareto_front": front,
    "graph_validate": is_valid_loom,
    "json_roundtrip": round_trip,
    "z_size": lambda v, _: {"sizes": [ZRange.of_shape(shape).size for shape in v["shapes"]]},
}
