"""The slot of an element of a ttnn tensor in plain numbers, one step of the definition after the other."""

from tapestry.hardware.layouts.ttnn import TtnnLayout, to_2d


def slot_by_definition(layout: TtnnLayout, coords: tuple[int, ...]) -> int:
    """Compute the slot from the shard, its page, the face of the page and the element of the face, all row-major."""
    found = layout.spec.layout
    at, extents = stored_position(layout, coords)
    nd = found.memory.nd_shard
    rank = max(2, len(nd.shape)) if nd else 2
    while len(at) > rank:
        at, extents = [at[0] * extents[1] + at[1], *at[2:]], [extents[0] * extents[1], *extents[2:]]
    at, extents = [0] * (rank - len(at)) + at, [1] * (rank - len(extents)) + extents
    shard = list(found.physical_shard or extents)
    shard = [1] * (rank - len(shard)) + shard
    page = list(found.page.tile.shape) if found.page.is_tiled else [1, shard[-1]]
    face = list(found.page.tile.face) if found.page.is_tiled else page
    ones = [1] * (rank - 2)
    slot = number(divided(at, shard), [-(-e // s) for e, s in zip(extents, shard, strict=True)])
    for outer, inner in ((shard, ones + page), (ones + page, ones + face), (ones + face, [*ones, 1, 1])):
        inside = [p % o for p, o in zip(at, outer, strict=True)]
        slot = number([slot, *divided(inside, inner)], [1, *divided(outer, inner)])
    return slot


def stored_position(layout: TtnnLayout, coords: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Compute the position of an element in the padded tensor, and the padded extents."""
    padded = list(layout.spec.padded_shape)
    spec, stored = layout.spec.layout.memory.shard, layout.spec.layout.physical_shard
    if spec is None or stored is None or not spec.is_logical:
        return [0] * (len(padded) - len(coords)) + list(coords), padded
    row = number(list(coords[:-1]), list(layout.shape[:-1]))
    matrix = (row, coords[-1] if coords else 0)
    at = [p // cut * s + p % cut for p, cut, s in zip(matrix, spec.shape, stored, strict=True)]
    whole = zip(to_2d(layout.shape), spec.shape, stored, strict=True)
    return at, [-(-size // cut) * s for size, cut, s in whole]


def number(digits: list[int], radices: list[int]) -> int:
    """Evaluate a number written in mixed radix, most significant digit first."""
    total = 0
    for digit, radix in zip(digits, radices, strict=True):
        total = total * radix + digit
    return total


def divided(values: list[int], sizes: list[int]) -> list[int]:
    return [value // size for value, size in zip(values, sizes, strict=True)]
