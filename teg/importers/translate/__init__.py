"""Translation of ONNX nodes to the importer's steps; translators are concatenated from one tuple per family."""

from __future__ import annotations

import numpy as np

from tapestry.teg.importers.carried_state import with_carried_state
from tapestry.teg.importers.failure import ImportFailure, WrongProgramError
from tapestry.teg.importers.fold_budget import FoldBudget
from tapestry.teg.importers.literals import literal, nothing
from tapestry.teg.importers.onnx_names import reads_of
from tapestry.teg.importers.onnx_reader import Model, OnnxNode
from tapestry.teg.importers.program import Entry, ImportLimitError, Literal, StepProgram, Value
from tapestry.teg.importers.translate.attention import ATTENTION
from tapestry.teg.importers.translate.casting import CASTING
from tapestry.teg.importers.translate.columns import COLUMNS
from tapestry.teg.importers.translate.control import CONTROL
from tapestry.teg.importers.translate.deformable_conv import DEFORMING
from tapestry.teg.importers.translate.elementwise import ELEMENTWISE
from tapestry.teg.importers.translate.folding import fold_node
from tapestry.teg.importers.translate.gathering import GATHERING
from tapestry.teg.importers.translate.generating import GENERATING
from tapestry.teg.importers.translate.linear import LINEAR
from tapestry.teg.importers.translate.losses import LOSSES
from tapestry.teg.importers.translate.matrices import MATRICES
from tapestry.teg.importers.translate.movement import MOVEMENT
from tapestry.teg.importers.translate.ordering import ORDERING
from tapestry.teg.importers.translate.pooling import POOLING
from tapestry.teg.importers.translate.quantization import QUANTIZED
from tapestry.teg.importers.translate.recurrent import RECURRENT
from tapestry.teg.importers.translate.reductions import REDUCTIONS
from tapestry.teg.importers.translate.reference_ops import fix_node
from tapestry.teg.importers.translate.resizing import RESIZING
from tapestry.teg.importers.translate.roles import settle_roles
from tapestry.teg.importers.translate.sampling import SAMPLING
from tapestry.teg.importers.translate.scattering import SCATTERING
from tapestry.teg.importers.translate.spectral import SPECTRAL
from tapestry.teg.importers.translate.standard import expand_node
from tapestry.teg.importers.translate.tiling import TILING
from tapestry.teg.importers.translate.training import TRAINING
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation
from tapestry.teg.importers.translate.transposed import TRANSPOSED
from tapestry.teg.importers.translate.windows import WINDOWS

TRANSLATORS: tuple[OnnxTranslator, ...] = (
    *ELEMENTWISE,
    *CASTING,
    *MOVEMENT,
    *TILING,
    *GATHERING,
    *SCATTERING,
    *ORDERING,
    *GENERATING,
    *LOSSES,
    *CONTROL,
    *LINEAR,
    *ATTENTION,
    *REDUCTIONS,
    *WINDOWS,
    *RECURRENT,
    *QUANTIZED,
    *TRANSPOSED,
    *POOLING,
    *TRAINING,
    *RESIZING,
    *SAMPLING,
    *DEFORMING,
    *SPECTRAL,
    *COLUMNS,
    *MATRICES,
)
BY_OP = {(translator.domain, op): translator for translator in TRANSLATORS for op in translator.ops}

SHOWN_REFUSALS = 3


def translate(model: Model) -> StepProgram:
    """Translate the model to steps over logical tensors, with constants folded.

    Raises:
        ImportFailure: operators that are unsupported (all of them named), or used in an unsupported way.
    """
    t = translation_of(model)
    t.program.outputs |= {output: t.resolve(name) for output, name in model.outputs.items()}
    t.program.names |= {name: t.resolve(name) for node in model.nodes for name in node.outputs if name}
    program = settle_roles(t.program.pruned(), model.initializer_roles)
    return with_carried_state(program, model.carries)


def translation_of(model: Model) -> Translation:
    """Translate all nodes of the model, including those that nothing reads.

    Raises:
        ImportFailure: as `translate` does.
    """
    program = StepProgram(model.name)
    t = Translation(program, model.opset, model.versions)
    stored = sum(array.size for array in model.initializers.values())
    t.budget = FoldBudget(len(model.nodes), stored)
    for value, role in model.inputs:
        program.values[value.name] = value
        if value.size == 0:
            t.known[value.name] = nothing(value)
        program.entries[value.name] = Entry(value, role)
    # A model that names its parameters has no others.
    unnamed = "constant" if "parameter" in model.initializer_roles.values() else "parameter"
    for name, array in model.initializers.items():
        _add_initializer(t, name, array, model.initializer_roles.get(name), unnamed)
    t.translate_node = lambda node, read: _translate_node(t, node, model, read)
    _translate_nodes(t, model)
    return t


def _translate_nodes(t: Translation, model: Model) -> None:
    """Translate all nodes that can be translated; then raise one error for all that could not."""
    refused: dict[str, list[str]] = {}
    lost: set[str] = set()
    read = set(model.outputs.values())
    for node in model.nodes:
        read |= reads_of(node.proto)
    for node in model.nodes:
        if not lost or lost.isdisjoint(reads_of(node.proto)):
            try:
                _translate_node(t, node, model, read)
                continue
            except Exception as error:
                refused.setdefault(node.op, []).append(str(_refusal(node, error)))
        lost.update(o for o in node.outputs if o)
    if refused:
        raise ImportFailure(f"{model.name}: {_list_refusals(refused)}")


def _refusal(node: OnnxNode, error: Exception) -> ImportFailure:
    """Convert an error to a refusal: a file's attributes and operands may be anything, and translators trust them."""
    if isinstance(error, ImportFailure):
        return error
    if isinstance(error, ImportLimitError):
        return ImportFailure(f"{node.where}: {error}")
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ImportFailure(f"{node.where} has attributes or operands that do not fit the operator ({reason})")


def _list_refusals(refused: dict[str, list[str]]) -> str:
    """Format the first reason of the first operators, and the names of all others."""
    specified = [
        reasons[0] + (f" (and {len(reasons) - 1} more of its kind)" if len(reasons) > 1 else "")
        for reasons in list(refused.values())[:SHOWN_REFUSALS]
    ]
    others = list(refused)[SHOWN_REFUSALS:]
    return "; ".join(specified) + (f"; and nodes of {', '.join(others)}" if others else "")


def _translate_node(t: Translation, node: OnnxNode, model: Model, read: set[str]) -> None:
    """Translate the node to a constant, to steps, to its definition by the standard, or to a fixed block.

    Raises:
        ImportFailure: none of them is possible.
    """
    translator = BY_OP.get((node.domain, node.op))
    if fold_node(t, node, translator is not None):
        return
    refusal: ImportFailure | None = None
    if translator is not None:
        before = t.progress()
        try:
            translator.translate(t, node)
            _check_outputs(t, node, read)
            return
        except WrongProgramError:
            raise
        except Exception as error:
            t.undo(node, before)
            refusal = _refusal(node, error)
    before = t.progress()
    try:
        expand_node(t, node)
        _check_outputs(t, node, read)
        return
    except WrongProgramError:
        raise
    except Exception:  # the body may be written for operands of other kinds
        t.undo(node, before)
    try:
        fix_node(t, node, model.declared)
    except ImportFailure as failure:
        raise refusal or failure from None


def _check_outputs(t: Translation, node: OnnxNode, read: set[str]) -> None:
    unmade = [o for o in node.outputs if o in read and t.resolve(o) not in t.program.values]
    if unmade:
        raise ImportFailure(f"{node.where} is unsupported where its output {unmade[0]!r} is used")


def _add_initializer(t: Translation, name: str, array: np.ndarray, role: str | None, unnamed: str) -> None:
    """Add an initializer: float arrays may be weights and stay as they are; numbers and integer arrays are literals.

    `role` is the one that the model states, `unnamed` that of weights for which it states none.
    """
    if role is None and (array.size <= 1 or array.dtype.kind in "biu"):
        t.know(name, literal(array))
        return
    value = Value(name, array.shape, array.dtype.name)
    t.program.values[name] = value
    t.program.entries[name] = Entry(value, role or unnamed, array)
    t.known[name] = Literal(array, array.shape)
