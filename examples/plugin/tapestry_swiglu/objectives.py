"""An objective that is not a sum of costs: the energy-delay product, by which chips are compared."""

from __future__ import annotations

from tapestry.costmodel.objective import Objective

ENERGY_DELAY = Objective(
    name="energy_delay_js",
    unit="J s",
    description="energy x time of one execution (Horowitz, Indermaur and Gonzalez, Low-power digital design, 1994)",
    expression="energy_j * time_s",
    title="energy-delay",
)

OBJECTIVES = (ENERGY_DELAY,)
