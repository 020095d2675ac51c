"""Seconds, joules and dollars: the one package that converts work to time, for cost model and simulator alike.

Pure functions over numpy arrays, which broadcast. Time is in integer ticks of 1 ps, energy in integer pJ. More work
never takes less time.
"""

from tapestry.hardware.timing.attribution import Weights, round_weights, shared_ticks
from tapestry.hardware.timing.blocks import BLOCK_KINDS, block_ticks, move_ticks, slowed_ticks
from tapestry.hardware.timing.collectives import (
    STEP_KINDS,
    copy_ticks,
    pipelined_ticks,
    start_ticks,
    step_ticks,
)
from tapestry.hardware.timing.energy import energy_pj
from tapestry.hardware.timing.errors import (
    NO_CLASS,
    SUPPLIED_CLASS,
    TimeClass,
    block_class,
    copy_error,
    exchange_classes,
    move_class,
)
from tapestry.hardware.timing.estimates import PROBABILITY, ClassTime, TimeDifference, TimeEstimate
from tapestry.hardware.timing.host_link import host_energy_pj, host_ticks
from tapestry.hardware.timing.units import LARGEST, PICOJOULES_PER_J, TICKS_PER_S, Ticks, seconds, ticks
from tapestry.hardware.timing.working_set import cold_tensors

__all__ = [
    "BLOCK_KINDS",
    "LARGEST",
    "NO_CLASS",
    "PICOJOULES_PER_J",
    "PROBABILITY",
    "STEP_KINDS",
    "SUPPLIED_CLASS",
    "TICKS_PER_S",
    "ClassTime",
    "Ticks",
    "TimeClass",
    "TimeDifference",
    "TimeEstimate",
    "Weights",
    "block_class",
    "block_ticks",
    "cold_tensors",
    "copy_error",
    "copy_ticks",
    "energy_pj",
    "exchange_classes",
    "host_energy_pj",
    "host_ticks",
    "move_class",
    "move_ticks",
    "pipelined_ticks",
    "round_weights",
    "seconds",
    "shared_ticks",
    "slowed_ticks",
    "start_ticks",
    "step_ticks",
    "ticks",
]
