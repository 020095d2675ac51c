"""A finite-element simulation, heat in a plate of several materials: `python -m tapestry.examples.heat [SECONDS]`.

Each step computes the next temperature of every point from its neighbors. Split over devices, a step needs only
the border rows of the neighboring devices; the temperature is state that is carried from run to run.
"""

import tapestry
from tapestry.examples.printing import show
from tapestry.teg.programs import Handle, Program


def step(p: Program, heat: Handle, conductivity: Handle) -> Handle:
    """Compute the temperature a moment later; nothing flows over the border of the plate."""
    around = heat.pad(row=1, column=1, mode="edge")
    above, below = around[:-2, 1:-1], around[2:, 1:-1]
    left, right = around[1:-1, :-2], around[1:-1, 2:]
    return p.cell(
        lambda t, k, a, b, c, d: t + k * (a + b + c + d - 4 * t),
        *(heat, conductivity, above, below, left, right),
        name="step",
    )


def simulation(rows: int = 4096, columns: int = 4096, steps: int = 4) -> Program:
    """Build a simulation of `steps` steps of a plate of `rows` x `columns` points."""
    with tapestry.program("heat") as p:
        heat = p.parameter("heat", row=rows, column=columns, role="buffer")
        conductivity = p.parameter("conductivity", row=rows, column=columns)
        now = heat
        for k in range(steps):
            with p.scope(f"step{k}"):
                now = step(p, now, conductivity)
        p.update(heat, now)
        p.output("hottest", now.max())
    return p


if __name__ == "__main__":
    show(simulation().graph)
