"""Generated layouts of each notation, by notation name; the contract tests draw from them."""

from hypothesis import strategies as st

from tapestry.hardware.layouts import Layout, parse_layout
from tests.hardware.layouts.tt_metal import test_layout as tt_metal_layouts
from tests.hardware.layouts.ttnn import generators as ttnn_layouts


@st.composite
def xla_layouts(draw: st.DrawFn) -> Layout:
    """Draw a layout with any dimension order, up to three tiles that join, reach across and pad, and tail padding."""
    shape = draw(st.lists(st.integers(1, 9), max_size=4))
    order = draw(st.permutations(range(len(shape))))
    sizes = st.one_of(st.integers(1, 5).map(str), st.just("*"))
    tiles = draw(st.lists(st.lists(sizes, max_size=2), max_size=3))
    ends = [",".join([*tile, str(draw(st.integers(1, 6)))]) for tile in tiles]
    tiled = f":T{''.join(f'({end})' for end in ends)}" if tiles else ""
    tail = draw(st.sampled_from(["", "L(7)", "L(128)"])) if tiles else ""
    dtype = draw(st.sampled_from(["f32", "bf16", "s4", "pred"]))
    minor_to_major = ",".join(map(str, order))
    return parse_layout(f"{dtype}[{','.join(map(str, shape))}]{{{minor_to_major}{tiled}{tail}}}")


@st.composite
def cute_layouts(draw: st.DrawFn) -> Layout:
    """Draw modes of up to three leaves, successive strides in any order with gaps, and a swizzle before them."""
    modes = draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3))
    order = draw(st.permutations([(m, k) for m, mode in enumerate(modes) for k in range(len(mode))]))
    strides = [[0] * len(mode) for mode in modes]
    step = 1
    for m, k in order:
        strides[m][k] = step
        step = step * modes[m][k] + draw(st.integers(0, 2))
    shape, stride = (
        f"({','.join('(' + ','.join(map(str, mode)) + ')' for mode in part)})" for part in (modes, strides)
    )
    swizzle = draw(st.sampled_from(["", "Sw<2,1,3> o _0 o ", "Sw<3,4,3> o _0 o ", "Sw<1,0,-2> o _0 o "]))
    return parse_layout(f"ptr[{draw(st.sampled_from([4, 8, 16, 64]))}b] o {swizzle}{shape}:{stride}")


STRATEGIES: dict[str, st.SearchStrategy[Layout]] = {
    "xla": xla_layouts(),
    "cute": cute_layouts(),
    "tt_metal": tt_metal_layouts.layouts(),
    "ttnn": ttnn_layouts.layouts(),
}
