"""The engine's memory: the peak of the real program, as its own nodes read it off the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.runs import finished, start
from tests.program import write_workflow

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not tell the peak of a process"
)


def peak_script(peaks: Path) -> str:
    """What a node runs to note the peak of the engine, its parent, so far (in KiB)."""
    return f"awk '/^VmHWM/ {{ print $2 }}' /proc/$PPID/status >>'{peaks}'"


def read_peaks(repo: Path, workflow: Path, peaks: Path) -> list[int]:
    """The notes that a run of a workflow made, in order."""
    peaks.unlink(missing_ok=True)
    status, _, err = finished(start("run", workflow, cwd=repo), patience=600)
    assert status == 0, err
    return [int(line) for line in peaks.read_text().split()]


@pytest.mark.parametrize(
    ("early", "late"), [(40, 120), pytest.param(100, 1000, marks=pytest.mark.slow)]
)
def test_a_loop_takes_no_more_with_every_visit(repo: Path, tmp_path: Path, early: int, late: int):
    script = peak_script(tmp_path / "peaks")
    workflow = write_workflow(
        tmp_path / "loop.dot",
        f"""
        a [script="{script}"]
        start -> a
        a -> a [condition="internal.node_visit_count < {late}"]
        a -> exit [condition="internal.node_visit_count = {late}"]
        """,
    )
    peaks = read_peaks(repo, workflow, tmp_path / "peaks")
    assert len(peaks) == late
    assert peaks[late - 1] <= 1.1 * peaks[early - 1]


@pytest.mark.parametrize("many", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_branches_take_memory_for_those_that_run_at_once(repo: Path, tmp_path: Path, many: int):
    peaks = tmp_path / "peaks"

    def peak_with(branches: int) -> int:
        names = [f"b{number}" for number in range(branches)]
        nodes = " ".join(f'{name} [script="true"] f -> {name} -> j' for name in names)
        workflow = write_workflow(
            tmp_path / f"{branches}.dot",
            f"""
            f [shape=component, max_parallel=4] j [shape=tripleoctagon]
            {nodes}
            last [script="{peak_script(peaks)}"]
            start -> f j -> last -> exit
            """,
        )
        (peak,) = read_peaks(repo, workflow, peaks)
        return peak

    few = peak_with(8)
    assert peak_with(many) <= 1.2 * few
