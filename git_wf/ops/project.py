"""A repository as an operation sees it: its runs, settings, and where its run directories are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path

from git_wf.core.clock import Clock
from git_wf.core.settings import Settings, read_settings
from git_wf.errors import UserError
from git_wf.ops.host import Host, StandingClock
from git_wf.store.files import make_directory
from git_wf.store.identity import Identity, read_identity
from git_wf.store.repo import MINIMUM_VERSION, Repo
from git_wf.store.runs import RunStore


@dataclass(frozen=True)
class Project:
    host: Host
    repo: Repo
    settings: Settings
    store: RunStore

    @cached_property
    def identity(self) -> Identity:
        return read_identity(self.repo)

    @cached_property
    def clock(self) -> Clock:
        """The host's, unless `GIT_COMMITTER_DATE` fixes the date of everything that is written."""
        fixed = self.identity.committer_date
        if fixed is None:
            return self.host.clock
        return StandingClock(moment_of(fixed), self.host.clock)

    @property
    def state_dir(self) -> Path:
        """Where run directories and worktrees of this repository are."""
        return state_root(self.settings, self.host.env) / self.repo.key

    def run_dir(self, run: str) -> Path:
        return self.state_dir / "runs" / run

    def close(self) -> None:
        self.store.close()


def open_project(host: Host) -> Project:
    """Raises `UserError` outside a repository, or where a setting is none that we know."""
    repo = Repo.find(host.cwd, host.env)
    settings = read_settings(repo.config_values())
    return Project(host, repo, settings, RunStore(repo, settings.names))


def require_writing_git(repo: Repo) -> None:
    """Raises `UserError` where git is too old for what writes."""
    version = repo.version()
    if version < MINIMUM_VERSION:
        told, needed = (".".join(map(str, one)) for one in (version, MINIMUM_VERSION))
        raise UserError(
            f"git {told} is too old: git-wf needs {needed} to write",
            hint="upgrade git; git wf log and git wf show work with it all the same",
        )


def require_state_directory(path: Path) -> None:
    """Makes it. Raises `UserError` where it cannot be made or written to."""
    hint = "git config wf.stateDir PATH names another place"
    try:
        make_directory(path)
    except OSError as err:
        why = err.strerror or "not a directory"
        raise UserError(f"cannot make state directory '{path}': {why}", hint=hint) from err
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to state directory '{path}'", hint=hint)


def state_root(settings: Settings, env: Mapping[str, str]) -> Path:
    """`<state>/git-wf`: `wf.stateDir`, else `$XDG_STATE_HOME`, else `~/.local/state`."""
    if settings.state_dir:
        given = Path(settings.state_dir)
        if given.parts[:1] == ("~",):
            given = _home(env).joinpath(*given.parts[1:])
        if not given.is_absolute():
            raise UserError(
                f"config 'wf.stateDir': '{given}' is not an absolute path",
                hint="git config wf.stateDir /PATH, or ~/PATH",
            )
        return given / "git-wf"
    state = env.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else _home(env) / ".local" / "state"
    return base / "git-wf"


def moment_of(date: str) -> datetime:
    """From `1764504000 +0100`, as a commit object has it."""
    seconds, zone = date.split()
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    return datetime.fromtimestamp(
        int(seconds), timezone(-offset if zone.startswith("-") else offset)
    )


def _home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME")
    return Path(home) if home else Path.home()
