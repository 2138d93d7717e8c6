"""The snapshot that `git wf run` saves first, of what is not committed and of what it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from git_wf.core.run_config import RunConfig
from git_wf.core.snapshot import RUN
from git_wf.errors import UserError, WfError
from git_wf.ops.host import Host
from git_wf.ops.snapshot import Asked, save
from git_wf.ops.workspace import open_workspace
from git_wf.store.repo import Repo
from git_wf.store.staging import changes

VARIABLE = "GIT_WF_SNAPSHOTS"
_WORDS = {"on": True, "off": False}


def wants_snapshot(env: Mapping[str, str], config: RunConfig) -> bool:
    """What the environment says, else `checkpoints.auto`, else yes. Raises `UserError`."""
    word = env.get(VARIABLE)
    if not word:
        return config.checkpoints is None or config.checkpoints.auto
    if word.lower() not in _WORDS:
        raise UserError(f"{VARIABLE}: '{word}' is neither on nor off", hint=f"{VARIABLE}=off")
    return _WORDS[word.lower()]


def save_before_run(
    host: Host, run_id: str, *, workflow: Path, in_place: Path | None
) -> list[tuple[str, str]]:
    """Saves the folder of a run in place, or the worktree of the workflow where it is dirty.

    Nothing that goes wrong stops a run: it is a notice.
    """
    try:
        if in_place is None and not _is_dirty(host, workflow):
            return []
        workspace = open_workspace(host, in_place or (host.cwd / workflow).parent)
        try:
            save(workspace, Asked(f"run:{run_id}", automatic=RUN))
        finally:
            workspace.close()
    except (WfError, OSError) as err:
        told = err.message if isinstance(err, WfError) else str(err)
        return [("no_snapshot", f"no snapshot was saved before the run: {told}")]
    return []


def _is_dirty(host: Host, workflow: Path) -> bool:
    """Whether the worktree that a workflow is in holds what is not committed."""
    try:
        repo = Repo.find((host.cwd / workflow).parent, host.env)
    except UserError:
        return False
    return repo.work_tree is not None and bool(changes(repo))
