"""Programs of the operators of a transformer layer under tensor parallelism: of one device, or what all exchange."""

from __future__ import annotations

from benchmarks.measurements.exchanges import exchange
from benchmarks.measurements.gpt import EXPANSION
from benchmarks.measurements.kernels import dtype_of, on_elements, product, program_of
from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import RankGroup, Systems
from benchmarks.measurements.workload import UnpredictedError, Workload, stated, whole
from tapestry.teg.dtypes import item_bytes


def layer_operator(question: Question, systems: Systems) -> Workload:
    """Build the workload of one operator of a GPT layer, heads and features divided among the devices.

    In the `prefill` phase all tokens of the sequence are computed, in `decode` one.

    Raises:
        UnpredictedError: an unknown operator, or sizes or a device that are not stated or unknown.
    """
    inputs = question.inputs
    name, shared = str(stated(inputs, "operator")), whole(inputs, "tensor_parallel")
    hidden, heads, batch = (whole(inputs, key) for key in ("hidden", "heads", "batch"))
    length = 1 if inputs.get("phase") == "decode" else whole(inputs, "seq_len")
    past, tokens, own = whole(inputs, "kv_length", "seq_len"), batch * length, heads // shared
    width, features = hidden // heads, EXPANSION * hidden // shared
    products = {
        "Q_K_V": (1, tokens, 3 * hidden // shared, hidden),
        "Q_mul_K": (batch * own, length, past, width),
        "A_mul_V": (batch * own, length, width, past),
        "Wo_proj": (1, tokens, hidden, hidden // shared),
        "W1_proj": (1, tokens, features, hidden),
        "W2_proj": (1, tokens, hidden, features),
    }
    rows = {
        "Softmax": ("softmax", (batch * own * length, past)),
        "LayerNorm": ("layernorm", (tokens, hidden)),
        "GeLU": ("gelu", (tokens, features)),
    }
    if name in products:
        many, m, n, k = products[name]
        return product(question, systems, many, m, n, k)
    stem = name.partition("_")[0]
    if stem in rows:
        operation, shape = rows[stem]
        return on_elements(question, systems, program_of(operation), shape)
    if stem == "AllReduce":
        size_bytes = tokens * hidden * item_bytes(dtype_of(question))
        return exchange(question, systems, "all_reduce", RankGroup(1, shared), size_bytes)
    raise UnpredictedError(f"unknown operator {name!r} of a layer")
