import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes


def test_a_source_takes_its_type_from_its_attributes():
    attrs = attributes(shape=(2, 3), dtype="bfloat16", role="parameter")

    definition, outputs = define("source", attrs, ())

    assert outputs == (TensorType((2, 3), "bfloat16"),)
    with pytest.raises(ValueError, match="its value comes from outside"):
        run_block(definition, None, (), outputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"role": "weight"}, "role.*activation, parameter.*not 'weight'"),
        ({"dtype": "float31"}, "unknown element type 'float31'; known are bool"),
        ({"shape": (2, -1)}, "'shape' must hold numbers of at least 0"),
        ({"shape": None}, "lacks 'shape'; its attributes are: shape, dtype, role"),
    ],
)
def test_a_source_says_what_is_wrong(change, message):
    attrs = attributes(**{"shape": (2,), "dtype": "int8", "role": "constant", **change})

    with pytest.raises(ValueError, match=message):
        define("source", attrs, ())


def test_a_sink_observes_any_tensor_and_makes_none():
    definition, outputs = define("sink", attributes(carries="weight"), (TensorType((), "bool"),))

    assert outputs == ()
    assert run_block(definition, None, (np.array(True),), outputs) == ()
    with pytest.raises(ValueError, match="expected 1 inputs \\(value\\), not 0"):
        define("sink", (), ())
