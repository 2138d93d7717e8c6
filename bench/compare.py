"""Timing two things in turn, so that a machine whose speed drifts slows down both.

One round is: the base, ours, the base once more. The ratio of a round is ours against the mean of
the two; the noise is the one base against the other.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

Action = Callable[[], object]


@dataclass(frozen=True)
class Took:
    """Seconds. CPU time is that of this process and of the processes that it has waited for."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Figure:
    """One measured value against its limit.

    `unit` is `×` (ours against `base`), or what is counted. `low` and `high` are the quartiles of
    the rounds; `noise` is how far the same thing was from itself: 0.1 is ten in a hundred.
    """

    what: str
    value: float
    limit: float
    unit: str = "×"
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    cpu: float | None = None  # the ratio of CPU times
    ours: float | None = None  # seconds
    base: float | None = None  # seconds

    @property
    def is_met(self) -> bool:
        return self.value <= self.limit


@dataclass
class Comparison:
    ours: list[Took] = field(default_factory=list)
    base: list[Took] = field(default_factory=list)  # the mean of the two
    ratios: list[float] = field(default_factory=list)
    noises: list[float] = field(default_factory=list)

    def figure(self, what: str, limit: float) -> Figure:
        low, high = spread(self.ratios)
        ours, base = median_of(self.ours), median_of(self.base)
        return Figure(
            what, median(self.ratios), limit, low=low, high=high, noise=median(self.noises),
            cpu=ours.cpu / base.cpu if base.cpu else None, ours=ours.wall, base=base.wall,
        )  # fmt: skip


def spread(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    quarters = quantiles(values, n=4, method="inclusive")
    return quarters[0], quarters[2]


def median_of(times: Sequence[Took]) -> Took:
    return Took(median(one.wall for one in times), median(one.cpu for one in times))


def timed(action: Action) -> Took:
    began = _cpu()
    start = time.perf_counter()
    action()
    wall = time.perf_counter() - start
    return Took(wall, _cpu() - began)


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def compare(
    base: Action,
    ours: Action,
    rounds: int,
    *,
    before_base: Action = lambda: None,
    before_ours: Action = lambda: None,
    warm_up: int = 1,
) -> Comparison:
    """What comes before each is not timed."""
    found = Comparison()
    for number in range(-warm_up, rounds):
        times = []
        for before, action in ((before_base, base), (before_ours, ours), (before_base, base)):
            before()
            times.append(timed(action))
        if number >= 0:
            first, mine, second = times
            mean = Took((first.wall + second.wall) / 2, (first.cpu + second.cpu) / 2)
            found.ours.append(mine)
            found.base.append(mean)
            found.ratios.append(mine.wall / mean.wall)
            found.noises.append(abs(second.wall - first.wall) / mean.wall)
    return found
