"""Random CuTe layouts: hierarchical shapes with compact or gapped strides in any order."""

from hypothesis import strategies as st

from tapestry.hardware.layouts.cute.basis import Term
from tapestry.hardware.layouts.cute.integers import Static
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tuples import integer, leaves

shapes: st.SearchStrategy[Term] = st.recursive(
    st.sampled_from((1, 2, 3, 4)).map(Static),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple),
    max_leaves=4,
)


def _filled(shape: Term, strides: dict[int, Static], place: list[int]) -> Term:
    if isinstance(shape, tuple):
        return tuple(_filled(part, strides, place) for part in shape)
    place[0] += 1
    return strides[place[0] - 1]


@st.composite
def injective(draw: st.DrawFn, gaps: bool = True) -> Strided:
    """Draw a layout of static integers in which no two coordinates share an offset."""
    shape = draw(shapes)
    extents = [integer(leaf) for leaf in leaves(shape)]
    strides, reached = {}, 1
    for place in draw(st.permutations(range(len(extents)))):
        reached *= draw(st.sampled_from((1, 1, 2))) if gaps else 1
        strides[place] = Static(reached)
        reached *= extents[place].value  # type: ignore[union-attr]
    return Strided(shape, _filled(shape, strides, [0]))
