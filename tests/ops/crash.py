"""The program, ended by SIGKILL behind a named step of the n-th checkpoint: `crash STEP N WORDS…`.

It is the program itself, but that every recorder of it is handed what to do at each step.
"""

from __future__ import annotations

import os
import signal
import sys

from git_wf.cli.main import main
from git_wf.store.branches import RunRecorder
from git_wf.store.recorder import GitRecorder


class Killer:
    def __init__(self, step: str, count: int) -> None:
        self.step = step
        self.left = count

    def __call__(self, step: str) -> None:
        self.left -= step == self.step
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    killer = Killer(sys.argv[1], int(sys.argv[2]))
    for recorder in (GitRecorder, RunRecorder):
        named = recorder.__init__.__kwdefaults__
        assert "at_step" in named, named
        named["at_step"] = killer
    main(sys.argv[3:])
