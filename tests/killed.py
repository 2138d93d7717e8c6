"""The program, killed at a named step: `python -m tests.killed STEP COUNT WORKFLOW RUN`.

STEP is as a recorder names it (`publish`, in a branch `f@1/1-a publish`), COUNT which time it
comes by. The clock stands still; RUN is the id of the run.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from git_wf.cli.main import exit_status
from git_wf.ops import live
from git_wf.ops.host import Host
from git_wf.store.branches import RunRecorder
from tests.program import FakeClock

STEP, COUNT, WORKFLOW, RUN = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


class KilledRecorder(RunRecorder):
    """The recorder of the run itself; it hears of the steps of branches too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options, at_step=self._count)
        self._left = COUNT

    def _count(self, step: str) -> None:
        self._left -= step == STEP
        if step == STEP and self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


live.RunRecorder = KilledRecorder  # type: ignore[attr-defined]
host = Host(Path.cwd(), dict(os.environ), FakeClock(), lambda moment: RUN)
sys.exit(exit_status(["run", WORKFLOW], host))
