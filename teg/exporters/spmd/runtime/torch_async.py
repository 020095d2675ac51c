"""Copies that are under way while a program computes: collectives made in steps, each of which can be waited for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import torch

# Yields what to wait for before the next step.
Steps = Generator[list[Any], None, Any]


class Started:
    """A copy that is under way."""

    def __init__(self, steps: Steps) -> None:
        self.steps, self.works = steps, next(steps)

    def wait(self) -> torch.Tensor:
        """Return what the copy brings, when it is there."""
        while True:
            while self.works:
                self.works.pop().wait()
            try:
                self.works = next(self.steps)
            except StopIteration as end:
                result: torch.Tensor = end.value
                return result


class AsyncCollective:
    """A function of the steps of a copy: called, it waits for them all; `start` waits for none."""

    def __init__(self, steps: Callable[..., Steps]) -> None:
        self.steps = steps

    def __call__(self, *arguments: Any, **options: Any) -> torch.Tensor:
        return self.start(*arguments, **options).wait()

    def start(self, *arguments: Any, **options: Any) -> Started:
        """Issue the first step."""
        return Started(self.steps(*arguments, **options))
