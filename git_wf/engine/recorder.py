"""What the engine is handed to keep its state in. It knows no git; whoever records does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from git_wf.core.checkpoint import Checkpoint, Recorded

__all__ = ["Recorded", "Recorder"]


class Recorder(Protocol):
    @property
    def work_dir(self) -> Path:
        """Where the nodes run."""

    def trace_dir(self, node: str, visit: int) -> Path:
        """An empty directory for the trace of this visit, in the run directory."""

    def wait(self, waiting: Mapping[str, Any]) -> Recorded:
        """Records what a run waits for (`waiting.json`) on top of its last checkpoint.

        Raises as `record` does.
        """

    def record(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        """The checkpoint cycle; the disk first. `artifacts` are those that the context refers to.

        Raising `GitFailed`, `Conflict` or `OSError` means that nothing was published: the run
        goes on, and the next checkpoint takes the same ordinal.
        """
