"""Operations that SIGKILL ends at any moment: nothing is lost, and the end is the same.

A moment is a change to a file that is not made any more, whichever process of the operation would
make it (`changes.c`). Then the engine ends, or its process group, or everything at once.
"""

from __future__ import annotations

import random

import pytest

from tests.ops.crashes import OPERATIONS, Bench, crash, grouped
from tests.ops.forks import MODES

FEW = {"run": 16, "section": 5, "resume": 5, "resume-half-done": 5, "rewind": 4, "fork": 3,
       "rewind-half-done": 3, "undo": 3, "rm": 3, "undo-rm": 3}  # fmt: skip
MANY = {"run": 120, "section": 80, "resume": 80, "resume-half-done": 60, "rewind": 40, "fork": 30,
        "rewind-half-done": 30, "undo": 30, "rm": 40, "undo-rm": 40}  # fmt: skip


def cases(counts: dict[str, int], seed: str) -> list[tuple[str, int, str]]:
    """Operation, moment from 0 to 1000, and who ends."""
    drawn = []
    for name, count in counts.items():
        draw = random.Random(f"{seed} {name}")
        drawn += [(name, draw.randrange(1000), MODES[one % len(MODES)]) for one in range(count)]
    return list(dict.fromkeys(drawn))


def killed_at(bench: Bench, name: str, moment: int, mode: str) -> None:
    whole = bench.measure(name)
    limit = 1 + moment * whole.changes // 1000
    crash(OPERATIONS[name], bench.place, limit=limit, mode=mode)
    assert OPERATIONS[name].tell(bench.place) == whole.told


@pytest.mark.parametrize(("name", "moment", "mode"), grouped(cases(FEW, "few")))
def test_killed(bench: Bench, name: str, moment: int, mode: str) -> None:
    killed_at(bench, name, moment, mode)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "moment", "mode"), grouped(cases(MANY, "many")))
def test_killed_often(bench: Bench, name: str, moment: int, mode: str) -> None:
    killed_at(bench, name, moment, mode)
