"""What the engine is handed to keep its state in. It knows no git; whoever records does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from git_wf.core.checkpoint import Checkpoint


@dataclass(frozen=True)
class Recorded:
    commit: str | None  # the run commit; None where nothing is committed (an in-place run)
    metadata_commit: str | None
    notices: tuple[tuple[str, str], ...] = ()  # code, message


class Recorder(Protocol):
    @property
    def work_dir(self) -> Path:
        """Where the nodes run."""

    def trace_dir(self, node: str, visit: int) -> Path:
        """An empty directory for the trace of this visit, in the run directory."""

    def record(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        """The checkpoint cycle; the disk first. `artifacts` are those that the context refers to.

        Raising `GitFailed`, `Conflict` or `OSError` means that nothing was published: the run
        goes on, and the next checkpoint takes the same ordinal.
        """
