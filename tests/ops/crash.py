"""The program, ended by SIGKILL behind a named step of the n-th checkpoint: `crash STEP N WORDS…`.

It is the program itself, but that whatever names its steps is handed what to do at each of them.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from git_wf.cli.main import main
from git_wf.ops import live, resume
from git_wf.store.branches import RunRecorder
from git_wf.store.plans import apply_plan
from git_wf.store.recorder import GitRecorder

# Each has a keyword `at_step`, which hears of every step that is done.
STEPPING: tuple[Any, ...] = (
    GitRecorder.__init__, RunRecorder.__init__, apply_plan, live.start_live, live.finish,
    resume._reconcile,
)  # fmt: skip


class Killer:
    def __init__(self, step: str, count: int) -> None:
        self.step = step
        self.left = count

    def __call__(self, step: str) -> None:
        self.left -= step == self.step
        if step == self.step and self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def die_behind(step: str, count: int) -> None:
    """This process ends when a step was made for the `count`-th time."""
    killer = Killer(step, count)
    for stepping in STEPPING:
        named = stepping.__kwdefaults__
        assert "at_step" in named, stepping
        named["at_step"] = killer


if __name__ == "__main__":
    die_behind(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
