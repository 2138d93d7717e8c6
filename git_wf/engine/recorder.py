"""What the engine is handed to keep its state in. It knows no git; whoever records does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from git_wf.core.checkpoint import Checkpoint, Recorded
from git_wf.core.children import ChildStep
from git_wf.core.sections import BranchStep, KeptBranch, Merged

__all__ = ["BranchRecorder", "Branches", "KeptBranch", "Merged", "Recorded", "Recorder"]


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

    @property
    def branches(self) -> Branches | None:
        """Where parallel branches are recorded; None where there is one worktree only."""


class BranchRecorder(Recorder, Protocol):
    """The recorder of one parallel branch, with a worktree of its own."""

    @property
    def kept(self) -> KeptBranch:
        """As the branch was when it was opened."""

    @property
    def head(self) -> str:
        """The last recorded commit."""

    @property
    def is_prepared(self) -> bool:
        """Whether the worktree has seen the prepare steps."""

    def finish(self, *, keep: bool) -> None:
        """Lets the worktree go; with `keep` it stays as it is, for a resumption."""


class Branches(Protocol):
    """Records the branches of fan-outs that a run, or another branch, opens."""

    def find_branch(self, step: BranchStep) -> KeptBranch | None:
        """What an earlier process recorded in this very section; None where it did not begin."""

    def open_branch(self, step: BranchStep) -> BranchRecorder:
        """Begins a branch, or goes on with one. Raises `GitFailed`, `Conflict`, `OSError`."""

    def merge(self, section: str, heads: Sequence[tuple[BranchStep, str]]) -> Merged:
        """Brings the worktree to the merge of its own head and `heads`, one after the other.

        The next `record` makes it a commit that has them as further parents, and closes their
        branches. Raises `GitFailed`, `OSError`.
        """

    def merge_child(self, step: ChildStep, run_id: str, head: str) -> Merged:
        """The same for the head of a child run, whose branch is its own and stays."""
