"""Tests of ties: equal layers share genes, different contexts do not; groups of dimensions run through the model."""

import numpy as np

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.placement.ties import dimension_groups, edge_ties, gene_ties, ties_from_labels
from tests.costmodel.programs import GRAPHS, layers

EIGHT = load_mesh("dgx-h100")


def classes(space: PlanSpace) -> dict[str, set[str]]:
    """Return the sites tied to each site."""
    label = gene_ties(space).label
    sites = [b.site for b in space.blocks]
    return {
        site: {s for s, other in zip(sites, label, strict=True) if other == own}
        for site, own in zip(sites, label, strict=True)
    }


def test_ranges_of_members_by_label() -> None:
    ties = ties_from_labels(np.array([7, 3, 7, 9, 3]))
    assert ties.label.tolist() == [1, 0, 1, 2, 0]
    assert ties.start.tolist() == [0, 2, 4, 5]
    assert ties.members.tolist() == [1, 4, 0, 2, 3]


def test_layers_far_from_both_ends_are_tied() -> None:
    found = classes(PlanSpace(layers(6), EIGHT))
    assert found["up2"] == {"up1", "up2", "up3", "up4"}
    assert found["u2"] >= {"u2", "u3"}
    assert "up0" not in found["up5"]
    assert not found["up2"] & found["down2"], "equal neighbors, but another product"


def test_a_parameter_read_as_left_or_right_operand_is_not_the_same() -> None:
    found = classes(PlanSpace(GRAPHS["attention"](), EIGHT))
    assert found["q"] == {"q"}
    assert found["wq"] == {"wq"}


def test_edges_are_tied_by_position_within_tied_blocks() -> None:
    space = PlanSpace(layers(6), EIGHT)
    edges = edge_ties(space, gene_ties(space))
    first = [int(space.space.edge_start[space.gene_of[f"up{k}"]]) for k in (2, 3, 4)]
    assert len(set(edges.label[first])) == 1
    assert len({*edges.label[first], *edges.label[np.array(first) + 1]}) == 2, "value and weight"


def test_dimension_groups_follow_the_data_not_the_names() -> None:
    space = PlanSpace(layers(3), EIGHT)
    table, class_of = dimension_groups(space)

    def groups(site: str) -> dict[int, int]:
        row = table[class_of[space.gene_of[site]]]
        return {int(dim): group for group, dim in enumerate(row) if dim >= 0}

    # Products count rows, columns and the summed dimension; cells rows and columns.
    up, act, down, source = groups("up1"), groups("act1"), groups("down1"), groups("x")
    assert up[0] == act[0] == down[0] == source[0], "the batch"
    assert up[1] == act[1] == down[2], "the hidden width"
    assert len({up[0], up[1], up[2]}) == 3
    assert groups("u1")[1] == up[1]
    assert groups("d1")[0] == down[2]
