"""Tests of programs that are split by hand: every device runs the region, and collectives carry its values."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from tapestry.teg.importers import ImportFailure, from_stablehlo
from tests.teg.importers.stablehlo.programs import run_text

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
PARTS = X.reshape(4, 2, 4)  # of the devices (a, b) of a mesh of two times two, the last axis fastest
LOCAL = "tensor<2x4xf32>"
ROWS = '[<@mesh, [{"a", "b"}, {}]>]'


def module(
    body: str, result: str = LOCAL, out: str = ROWS, shape: str = "8x4", manual: str = '"a", "b"'
) -> str:
    """Return a module whose devices apply `body` to %p, two rows of an argument, and return %r."""
    return f"""
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x4xf32>) -> tensor<{shape}xf32> {{
  %0 = sdy.manual_computation(%x) in_shardings={ROWS} out_shardings={out} manual_axes={{{manual}}} (%p: {LOCAL}) {{
    {body}
    sdy.return %r : {result}
  }} : (tensor<8x4xf32>) -> tensor<{shape}xf32>
  return %0 : tensor<{shape}xf32>
}}"""


def collective(name: str, attributes: str, result: str = LOCAL, region: str = "") -> str:
    body = ""
    if region:
        body = f" ({{\n^bb0(%s: tensor<f32>, %t: tensor<f32>):\n%u = {region} %s, %t : tensor<f32>\n"
        body += "stablehlo.return %u : tensor<f32>\n})"
    return f'%r = "stablehlo.{name}"(%p) <{{{attributes}}}>{body} : ({LOCAL}) -> {result}'


CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
PAIRS = f"{CHANNEL}, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids"
ACROSS = "replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>"


def test_a_gather_joins_the_parts_of_a_group() -> None:
    result = "tensor<2x8xf32>"
    text = module(collective("all_gather", f"all_gather_dim = 1 : i64, {PAIRS}", result), result, shape="8x8")
    (found,) = run_text(text, X)
    joined = [np.concatenate(PARTS[k : k + 2], axis=1) for k in (0, 0, 2, 2)]
    np.testing.assert_array_equal(found, np.concatenate(joined))


@pytest.mark.parametrize(
    ("region", "combine"), [("stablehlo.add", np.add), ("stablehlo.maximum", np.maximum)]
)
def test_an_all_reduce_combines_the_terms_of_a_group(region: str, combine: np.ufunc) -> None:
    (found,) = run_text(module(collective("all_reduce", PAIRS, region=region)), X)
    sums = [combine(PARTS[0], PARTS[1])] * 2 + [combine(PARTS[2], PARTS[3])] * 2
    np.testing.assert_array_equal(found, np.concatenate(sums))


def test_a_reduce_scatter_leaves_each_member_the_part_of_its_position() -> None:
    result = "tensor<2x2xf32>"
    attributes = f"scatter_dimension = 1 : i64, {PAIRS}"
    text = module(collective("reduce_scatter", attributes, result, "stablehlo.add"), result, shape="8x2")
    (found,) = run_text(text, X)
    sums = [PARTS[0] + PARTS[1], PARTS[2] + PARTS[3]]
    np.testing.assert_array_equal(
        found, np.concatenate([sums[d // 2][:, 2 * (d % 2) :][:, :2] for d in range(4)])
    )


def test_an_all_to_all_follows_the_order_of_its_group() -> None:
    result = "tensor<4x2xf32>"
    attributes = f"concat_dimension = 0 : i64, split_dimension = 1 : i64, split_count = 2 : i64, {ACROSS}"
    (found,) = run_text(module(collective("all_to_all", attributes, result), result, shape="16x2"), X)
    columns = {2: (2, 0, slice(0, 2)), 0: (2, 0, slice(2, 4)), 1: (1, 3, slice(0, 2)), 3: (1, 3, slice(2, 4))}
    wanted = [np.concatenate([PARTS[i][:, s], PARTS[j][:, s]]) for _, (i, j, s) in sorted(columns.items())]
    np.testing.assert_array_equal(found, np.concatenate(wanted))


def test_a_permutation_leaves_zeros_where_nothing_comes() -> None:
    pairs = "source_target_pairs = dense<[[0, 3], [3, 1]]> : tensor<2x2xi64>"
    (found,) = run_text(module(collective("collective_permute", pairs)), X)
    zero = np.zeros((2, 4), np.float32)
    np.testing.assert_array_equal(found, np.concatenate([zero, PARTS[3], zero, PARTS[0]]))


def test_devices_take_branches_of_their_own() -> None:
    body = f"""%d = stablehlo.partition_id : tensor<ui32>
    %k = stablehlo.convert %d : (tensor<ui32>) -> tensor<i32>
    %r = "stablehlo.case"(%k) ({{
      %u = stablehlo.add %p, %p : {LOCAL}
      stablehlo.return %u : {LOCAL}
    }}, {{
      stablehlo.return %p : {LOCAL}
    }}, {{
      %v = stablehlo.negate %p : {LOCAL}
      stablehlo.return %v : {LOCAL}
    }}) : (tensor<i32>) -> {LOCAL}"""
    (found,) = run_text(module(body), X)
    np.testing.assert_array_equal(found, np.concatenate([2 * PARTS[0], PARTS[1], -PARTS[2], -PARTS[3]]))


def test_loops_with_collectives_run_on_all_devices_together() -> None:
    step = collective("all_reduce", PAIRS, region="stablehlo.add").replace("%r", "%q").replace("(%p)", "(%v)")
    body = f"""%z = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %z, %v = %p) : tensor<i32>, {LOCAL}
    cond {{
      %n = stablehlo.constant dense<2> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      {step}
      %o = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %o : tensor<i32>
      stablehlo.return %j, %q : tensor<i32>, {LOCAL}
    }}
    %r = stablehlo.add %w#1, %w#1 : {LOCAL}"""
    (found,) = run_text(module(body), X)
    sums = [4 * (PARTS[0] + PARTS[1])] * 2 + [4 * (PARTS[2] + PARTS[3])] * 2
    np.testing.assert_allclose(found, np.concatenate(sums), rtol=1e-6)


def test_work_that_devices_share_is_one_block() -> None:
    text = module(
        collective("all_reduce", PAIRS, region="stablehlo.add").replace("%r", "%s0")
        + f"\n%r = stablehlo.exponential %s0 : {LOCAL}"
    )
    cells = [b.site for b in from_stablehlo(text).blocks if b.operator == "cell"]
    assert sorted(cells) == ["add.1", "add.2", "exponential.1@0", "exponential.2@2"]


def test_numbers_that_differ_in_a_last_digit_are_two() -> None:
    body = f"""%a = stablehlo.constant dense<0.1234567> : tensor<f32>
    %b = stablehlo.constant dense<0.1234568> : tensor<f32>
    %c = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> {LOCAL}
    %d = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> {LOCAL}
    %e = stablehlo.subtract %d, %c : {LOCAL}
    %r = stablehlo.divide %e, %e : {LOCAL}"""
    (found,) = run_text(module(body), X)
    np.testing.assert_array_equal(found, np.ones((8, 4)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            module(
                collective(
                    "all_reduce",
                    PAIRS.replace(", [2, 3]]> : tensor<2x", "]> : tensor<1x"),
                    region="stablehlo.add",
                )
            ),
            r"has groups \[\[0, 1\]\]; expected each of 4 devices in one of them",
        ),
        (
            module(collective("all_reduce", PAIRS.partition(", use")[0], region="stablehlo.add")),
            "has groups of replicas; expected groups of devices",
        ),
        (
            module(
                collective("collective_permute", "source_target_pairs = dense<[[0, 9]]> : tensor<1x2xi64>")
            ),
            r"has pairs \[\[0, 9\]\]; expected numbers of 4 devices",
        ),
        (
            "func.func @main(%p: tensor<2x4xf32>) -> tensor<2x4xf32> {\n"
            + collective("all_reduce", PAIRS, region="stablehlo.add")
            + "\nreturn %r : tensor<2x4xf32>\n}",
            "is in no region that is split by hand",
        ),
    ],
)
def test_what_devices_cannot_do_together_is_refused(text: str, message: str) -> None:
    with pytest.raises(ImportFailure, match=message):
        from_stablehlo(text)
