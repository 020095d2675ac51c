"""Tests of the arrays of variants as bytes: round trips, damage, names by content, and what a worker keeps."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from tapestry.optimizer.run import variant_arrays
from tapestry.optimizer.run.serialization import serialize
from tapestry.optimizer.run.variant_arrays import (
    MAGIC,
    MOST_LOADED_VARIANTS,
    LoadedVariant,
    UnknownVariant,
    VariantArrays,
    VariantError,
    load_variant,
    parse_variant,
    token_of,
    variant_bytes,
    with_content,
    write_variant,
)
from tapestry.optimizer.run.variants import Variant
from tests.optimizer.run.test_variants import submesh, variant_of


@pytest.fixture(scope="module")
def variant() -> Variant:
    return variant_of("attention", submesh())


@pytest.fixture(scope="module")
def content(variant: Variant) -> bytes:
    return variant_bytes(variant.space.space, variant.search)


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_arrays, "_loaded", OrderedDict())


def test_arrays_come_back_with_their_types_and_can_be_compiled_for(variant: Variant, content: bytes) -> None:
    for given, read in zip((variant.space.space, variant.search), parse_variant(content), strict=True):
        assert type(given) is type(read)
        for name, value in given._asdict().items():
            found = getattr(read, name)
            assert type(found) is type(value), name
            if isinstance(value, np.ndarray):
                assert (found.dtype, found.shape) == (value.dtype, value.shape), name
                assert np.array_equal(found, value), name
                assert found.flags.c_contiguous and found.flags.aligned and found.flags.writeable, name
            else:
                assert found == value, name


def test_the_name_is_that_of_the_content(variant: Variant, content: bytes) -> None:
    assert variant_bytes(variant.space.space, variant.search) == content
    other = variant.search._replace(digits=variant.search.digits + 1)
    assert token_of(variant_bytes(variant.space.space, other)) != token_of(content)
    assert len(token_of(content)) == 64


def test_damaged_bytes_are_refused(content: bytes) -> None:
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 100):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(VariantError, match="no arrays of a variant"):
            parse_variant(bytes(damaged))
    for length in (0, 5, len(MAGIC) + 10, len(content) // 2, len(content) - 1):
        with pytest.raises(VariantError):
            parse_variant(content[:length])


def test_other_bytes_are_refused_and_never_unpickled(variant: Variant, content: bytes) -> None:
    space, search = parse_variant(content)
    numbers = {"space.slot_count": 1}
    for other in (
        pickle.dumps((tuple(variant.space.space), tuple(variant.search))),
        serialize(b"tapestry search 1\n", {}, {}),
        serialize(MAGIC, {}, {}),
        serialize(MAGIC, {"numbers": numbers}, {"space.classes": space.classes}),
        serialize(MAGIC, {"numbers": [1]}, {}),
    ):
        with pytest.raises(VariantError):
            parse_variant(other)
    arrays = {f"search.{k}": a for k, a in search._asdict().items() if isinstance(a, np.ndarray)}
    arrays |= {f"space.{k}": a for k, a in space._asdict().items() if isinstance(a, np.ndarray)}
    scalars = {f"space.{k}": a for k, a in space._asdict().items() if not isinstance(a, np.ndarray)}
    scalars |= {"search.axes": search.axes}
    assert parse_variant(serialize(MAGIC, {"numbers": scalars}, arrays))
    with pytest.raises(VariantError, match=r"'search\.more'"):
        parse_variant(serialize(MAGIC, {"numbers": scalars}, {**arrays, "search.more": arrays["search.fit"]}))


def test_a_worker_reads_the_file_once(variant: Variant, tmp_path: Path) -> None:
    written = write_variant(tmp_path, variant.space.space, variant.search)
    first = load_variant(written)
    assert isinstance(first, LoadedVariant)
    Path(written.path).unlink()
    assert load_variant(written) is first


def test_a_worker_without_the_file_asks_for_the_bytes(variant: Variant, tmp_path: Path) -> None:
    written = write_variant(tmp_path, variant.space.space, variant.search)
    complete = with_content(written)
    Path(written.path).unlink()
    assert load_variant(written) == UnknownVariant(written.token)
    loaded = load_variant(complete)
    assert isinstance(loaded, LoadedVariant)
    assert load_variant(written) is loaded


def test_bytes_of_another_variant_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(VariantError, match="the bytes are of variant"):
        load_variant(VariantArrays("0" * 64, str(path)))
    with pytest.raises(VariantError, match="no arrays of a variant"):
        load_variant(VariantArrays(token_of(content), "", content[:-1]))


def test_a_worker_keeps_the_variants_that_it_used_last(
    variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = [variant.search._replace(axes=k + 1) for k in range(MOST_LOADED_VARIANTS + 1)]
    written = [write_variant(tmp_path, variant.space.space, search) for search in searches]
    kept = load_variant(written[0])
    for name in written[1:-1]:
        load_variant(name)
    assert load_variant(written[0]) is kept
    load_variant(written[-1])
    assert written[1].token not in variant_arrays._loaded
    assert load_variant(written[0]) is kept
    assert len(variant_arrays._loaded) == MOST_LOADED_VARIANTS

    monkeypatch.setattr(variant_arrays, "LARGEST_LOADED_BYTES", 1)
    load_variant(written[1])
    assert list(variant_arrays._loaded) == [written[1].token]
