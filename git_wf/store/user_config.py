"""The user's own git configuration: touched by `git wf setup` alone, because it is asked to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from git_wf.errors import GitFailed, UserError

INCLUDE = "include.path"


def global_includes(env: Mapping[str, str]) -> list[str]:
    """The `include.path` lines of the user's configuration."""
    told = _config(env, "--null", "--get-all", INCLUDE, ok=(0, 1))
    return [os.fsdecode(line) for line in told.split(b"\0") if line]


def add_include(env: Mapping[str, str], path: Path) -> None:
    _config(env, "--add", INCLUDE, os.fspath(path))


def remove_include(env: Mapping[str, str], path: Path) -> None:
    """Removes the line, and the configuration file itself where nothing else was in it."""
    _config(env, "--fixed-value", "--unset-all", INCLUDE, os.fspath(path), ok=(0, 5))
    for file in _global_files(env):
        if file.is_file() and not file.is_symlink() and not file.read_bytes().strip():
            file.unlink()


def _global_files(env: Mapping[str, str]) -> list[Path]:
    """Where git keeps the user's configuration."""
    if named := env.get("GIT_CONFIG_GLOBAL"):
        return [Path(named)]
    home = env.get("HOME")
    config = env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    files = [Path(home, ".gitconfig")] if home else []
    return files + ([Path(config, "git", "config")] if config else [])


def _refuse_devices(env: Mapping[str, str]) -> None:
    """git renames a new file over the one that it writes; as root even over `/dev/null`."""
    named = env.get("GIT_CONFIG_GLOBAL")
    if named and os.path.lexists(named) and not os.path.isfile(named):
        raise UserError(
            f"GIT_CONFIG_GLOBAL names '{named}', which is no file",
            hint="env -u GIT_CONFIG_GLOBAL git wf setup",
        )


def _config(env: Mapping[str, str], *args: str, ok: tuple[int, ...] = (0,)) -> bytes:
    _refuse_devices(env)
    command = ["git", "config", "--global", *args]
    done = subprocess.run(
        command,
        env={**env, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode not in ok:
        raise GitFailed(command, done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout
