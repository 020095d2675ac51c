"""Training steps from programs of inference: reverse-mode differentiation by a rule per operator, and optimizers."""

from tapestry.teg.training.gradients import RULES, differentiate
from tapestry.teg.training.losses import LOSSES
from tapestry.teg.training.optimizers import LEARNING_RATES, OPTIMIZERS
from tapestry.teg.training.rule import NotDifferentiable
from tapestry.teg.training.step import TrainingStep, training_step

__all__ = [
    "LEARNING_RATES",
    "LOSSES",
    "OPTIMIZERS",
    "RULES",
    "NotDifferentiable",
    "TrainingStep",
    "differentiate",
    "training_step",
]
