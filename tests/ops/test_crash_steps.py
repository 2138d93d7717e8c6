"""Operations that SIGKILL ends behind each of their steps: nothing is lost, the end is the same."""

from __future__ import annotations

import pytest

from tests.ops.crashes import OPERATIONS, Bench, crash, grouped

CASES = [(name, step, count) for name, one in OPERATIONS.items() for step, count in one.steps]


@pytest.mark.parametrize(("name", "step", "count"), grouped(CASES))
def test_killed_behind(bench: Bench, name: str, step: str, count: int) -> None:
    whole = bench.measure(name)
    ended = crash(OPERATIONS[name], bench.place, step=(step, count))
    assert ended.is_killed, ended.err
    assert OPERATIONS[name].tell(bench.place) == whole.told
