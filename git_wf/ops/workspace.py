"""The workspace that is saved: a worktree, or a folder outside any repository, and its snapshots.

The snapshots of a folder are in a private repository in the state directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from git_wf.core.names import safe_component
from git_wf.core.settings import Settings, read_settings
from git_wf.core.snapshot import Snapshot
from git_wf.errors import Conflict, UserError
from git_wf.ops.host import Host, StandingClock
from git_wf.ops.project import moment_of, require_state_directory, require_writing_git, state_root
from git_wf.store.files import Lock, holder
from git_wf.store.folders import folder_config, folder_repo, make_folder_repo
from git_wf.store.repo import Repo
from git_wf.store.restoring import Journal
from git_wf.store.scan import Rules, Scan, Scanner
from git_wf.store.snapshots import SnapshotStore

_WAIT = 60.0  # seconds for another one that saves or restores the same workspace
_PLACING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_IMPLICIT_WORK_TREE")
# Folders of the system: those themselves, and those that all below belongs to as well.
_TOO_BIG = ("/", "/home", "/Users", "/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt", "/media",
            "/run", "/root", "/usr", "/private", "/Volumes")  # fmt: skip
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys",
           "/usr/bin", "/usr/lib", "/usr/sbin", "/usr/share", "/System", "/Library",
           "/Applications")  # fmt: skip


@dataclass(frozen=True)
class Workspace:
    """A workspace, and what its snapshots are kept in (None: nothing was saved yet)."""

    host: Host
    top: Path
    settings: Settings
    config: Mapping[str, Sequence[str]]
    store: SnapshotStore
    notices: tuple[str, ...] = ()

    def close(self) -> None:
        self.store.close()

    @property
    def moment(self) -> datetime:
        fixed = self.store.identity.committer_date
        clock = self.host.clock
        return (StandingClock(moment_of(fixed), clock) if fixed else clock).now()

    def rules(self, extra: Sequence[bytes] = ()) -> Rules:
        return Rules(
            max_file=self.settings.snapshot_max_file,
            excludes=_user_file(self, "core.excludesfile", "ignore"),
            attributes=_user_file(self, "core.attributesfile", "attributes"),
            extra=frozenset(extra),
        )

    def scanner(self, extra: Sequence[bytes] = ()) -> Scanner:
        return Scanner(
            self.store.repo, self.store.place, self.rules(extra), is_own=self.store.is_own
        )


def _user_file(workspace: Workspace, key: str, name: str) -> Path | None:
    """A file of the user's that git reads: as configured, or in its place."""
    env = workspace.host.env
    values = workspace.config.get(key)
    if values:
        given = values[-1]
        if given.startswith("~/"):
            return Path(env.get("HOME", ""), given[2:])
        return workspace.top / given if given else None
    home = env.get("XDG_CONFIG_HOME") or (f"{env['HOME']}/.config" if env.get("HOME") else "")
    return Path(home, "git", name) if home else None


def open_workspace(host: Host, where: Path | None = None, storage: Path | None = None) -> Workspace:
    """The workspace that `where`, or the current directory, is in.

    With `storage` it is just that folder, and its snapshots are in a repository below `storage`.
    Raises `UserError` where that is none, or nothing that should be saved as a whole.
    """
    place = host.cwd / where if where is not None else host.cwd
    if not place.is_dir():
        raise UserError(f"no such folder: '{place}'", hint="git wf snapshot list -w FOLDER")
    env = {key: value for key, value in host.env.items() if key not in _PLACING}
    if storage is not None:
        return _open_folder(host, place, env, host.cwd / storage)
    repo = _repository(place, env)
    if repo is None:
        return _open_folder(host, place, env)
    if repo.work_tree is None:
        raise UserError(
            "not in a worktree: there is nothing to save",
            hint="git wf snapshot save MESSAGE -w FOLDER",
        )
    config = repo.config_values()
    settings = read_settings(config)
    _refuse_too_big(host, settings, repo.work_tree)
    name = "main"
    if repo.git_dir != repo.common_dir:
        linked = safe_component(repo.git_dir.name)
        name = "%6Dain" if linked == "main" else linked
    store = SnapshotStore(repo, settings.names, name, is_own=True)
    notices = tuple(_placing_notices(host, repo))
    return Workspace(host, repo.work_tree, settings, config, store, notices)


def _repository(place: Path, env: Mapping[str, str]) -> Repo | None:
    try:
        return Repo.find(place, env)
    except UserError:
        return None


def _placing_notices(host: Host, repo: Repo | None) -> Iterator[str]:
    """What the environment names, where that is another repository than the one in use."""
    given = host.env.get("GIT_DIR")
    if given is None and host.env.get("GIT_WORK_TREE") is None:
        return
    if given is not None and repo is not None:
        meant = os.path.realpath(host.cwd / given)
        if meant == os.path.realpath(repo.git_dir):
            return
    name = "GIT_DIR" if given is not None else "GIT_WORK_TREE"
    yield f"{name} is ignored: a workspace is found from its folder"


def _open_folder(
    host: Host, place: Path, env: Mapping[str, str], storage: Path | None = None
) -> Workspace:
    config = folder_config(place, env)
    settings = read_settings(config)
    top = Path(os.path.realpath(place))
    _refuse_too_big(host, settings, top)
    root = storage or state_root(settings, host.env)
    if storage is not None and Path(os.path.realpath(storage)).is_relative_to(top):
        raise UserError(
            f"'{storage}' is inside of the folder that is saved in it",
            hint="keep snapshots beside the folder, or leave the place out",
        )
    digest = hashlib.sha256(os.fsencode(top)).hexdigest()[:12]
    kept = root / f"{top.name or 'root'}-{digest}"
    repo = folder_repo(kept, top, env)
    if repo is None:
        require_state_directory(kept)
        repo = make_folder_repo(kept, top, env)
    store = SnapshotStore(repo, settings.names, digest, is_own=False)
    return Workspace(host, top, settings, config, store, tuple(_placing_notices(host, None)))


def _refuse_too_big(host: Host, settings: Settings, top: Path) -> None:
    real = os.path.realpath(top)
    allowed = {os.path.realpath(os.path.expanduser(one)) for one in settings.snapshot_allow}
    if real in allowed:
        return
    home, state = host.env.get("HOME"), os.path.realpath(state_root(settings, host.env))
    told = None
    if home and real == os.path.realpath(home):
        told = "your home directory"
    elif real in _TOO_BIG or any(real == one or real.startswith(f"{one}/") for one in _SYSTEM):
        told = "a folder of the system"
    elif state == real or state.startswith(f"{real.rstrip('/')}/"):
        told = "where git-wf keeps its own state"
    if told is not None:
        raise UserError(
            f"'{real}' is {told}: it is not saved as a whole",
            hint=[
                "cd into the folder that you work in, or -w FOLDER",
                f"git config --global --add wf.snapshotAllow {real} allows it",
            ],
        )


@contextmanager
def locked(workspace: Workspace) -> Iterator[list[str]]:
    """The workspace, ours alone; and what there is to tell of a restore that was cut off."""
    require_writing_git(workspace.store.repo)
    store = workspace.store
    lock = Lock(store.lock_path, f"process {os.getpid()}")
    if not lock.acquire(_WAIT):
        raise Conflict(
            f"workspace '{workspace.top}' is being saved or restored by {holder(store.lock_path)}",
            hint="try again when it is done",
        )
    with lock:
        store.make_place()
        yield _cut_off(workspace)


def _cut_off(workspace: Workspace) -> list[str]:
    store = workspace.store
    note = Journal(store.place).clean(workspace.top)
    if note is None:
        return []
    told = f"a restore of {note.get('target')} was cut off: restore it again to finish it"
    before = note.get("before")
    return [f"{told}, or {before}, which is the state before it" if before else told]


def scan_now(
    workspace: Workspace, snapshots: Sequence[Snapshot], extra: Sequence[bytes] = ()
) -> Scan:
    before = workspace.store.remembered(snapshots)
    return workspace.scanner(extra).scan(before)
