"""Choice of probes: those of every class that figures rest on come first, the others as far as there is time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from tapestry.hardware.calibration.probes import Probe
from tapestry.hardware.calibration.runs import fewest_s
from tapestry.hardware.calibration.samples import KernelSample, sample_of

FEWEST = 3  # probes of a class that get figures of their own
# Of classes whose probes say more: rates and sizes of memory and cache, the peak and the waste of tiles.
KEY_COUNTS = {"elementwise.fp32": 10, "matrix_product.fp32": 6, "matrix_product.fp16": 6}
LAUNCH = "unfused"  # how exported modules run
# Where in a class, ordered by work, the probes are that say most; the largest takes long and comes later.
FIRST = (0.85, 0.15, 0.5, 0.7, 0.3, 0.95, 0.05, 0.6, 0.4, 0.2)


def sampled(probe: Probe, seconds: float = 1.0) -> KernelSample | None:
    """Return the sample of a probe that was measured to take so long."""
    return sample_of(probe.graph, seconds, probe.name.split()[0], LAUNCH, is_part=True)


def class_of(probe: Probe) -> str:
    """Return the class of kernel that a probe times; its own name where it has none."""
    sample = sampled(probe)
    return probe.name if sample is None else sample.key


def fewest_of(key: str) -> int:
    """Return how many probes of a class its figures need."""
    return KEY_COUNTS.get(key, FEWEST)


def by_need(probes: Sequence[Probe]) -> tuple[list[Probe], list[Probe]]:
    """Return the probes without which a class has no figures, and the others, of all classes in turns."""
    classes: dict[str, list[Probe]] = {}
    for probe in probes:
        classes.setdefault(class_of(probe), []).append(probe)
    ordered = {key: _spread(members) for key, members in classes.items()}
    needed = [probe for key, members in ordered.items() for probe in members[: fewest_of(key)]]
    others = zip_longest(*(members[fewest_of(key) :] for key, members in ordered.items()))
    return needed, [probe for turn in others for probe in turn if probe is not None]


def _spread(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes of a class such that the first few lie far apart in work."""
    ordered = sorted(probes, key=_work)
    last = len(ordered) - 1
    first = [ordered[round(place * last)] for place in FIRST]
    return list(dict.fromkeys([*first, *ordered]))


def _work(probe: Probe) -> float:
    sample = sampled(probe)
    return 0.0 if sample is None else sample.flops + sample.moved


def too_long(loaded: Sequence[Probe], once_s: Mapping[str, float], left_s: float) -> list[Probe]:
    """Return the longest probes, without which the fewest passes over the others take at most `left_s` seconds.

    Each class keeps as many as its figures need, however long they take.
    """
    longest = sorted(loaded, key=lambda probe: once_s[probe.name], reverse=True)
    keys = {probe.name: class_of(probe) for probe in loaded}
    left = Counter(keys.values())
    total_s = sum(fewest_s(once_s[probe.name]) for probe in loaded)
    found = []
    for probe in longest:
        if total_s <= left_s:
            break
        if left[keys[probe.name]] > fewest_of(keys[probe.name]):
            left[keys[probe.name]] -= 1
            total_s -= fewest_s(once_s[probe.name])
            found.append(probe)
    return found
