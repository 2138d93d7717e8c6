"""Folders outside any repository: their snapshots are in a private bare repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from git_wf.errors import GitFailed, UserError
from git_wf.store.files import remove_tree
from git_wf.store.repo import LOCATING, MISLEADING, Repo, scrubbed_env

_NAME = "snapshots.git"


def folder_config(place: Path, env: Mapping[str, str]) -> dict[str, list[str]]:
    """Git's configuration where there is no repository: as `Repo.config_values`."""
    command = ["git", "config", "--null", "--list"]
    try:
        done = subprocess.run(
            command, cwd=place, env={**scrubbed_env(env), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
    except FileNotFoundError as err:
        raise UserError("git is not installed", hint="install git 2.38 or newer") from err
    if done.returncode != 0:
        raise GitFailed(command, done.returncode, done.stderr.decode("utf-8", "replace"))
    values: dict[str, list[str]] = {}
    for entry in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
        if entry:
            key, _, value = entry.partition("\n")
            values.setdefault(key, []).append(value)
    return values


def folder_repo(kept: Path, top: Path, env: Mapping[str, str]) -> Repo | None:
    """The repository of a folder below `kept`; None where nothing was saved yet."""
    path = kept / _NAME
    if not (path / "HEAD").exists():
        return None
    object_format = "sha256" if b"sha256" in (path / "config").read_bytes() else "sha1"
    return Repo(path, path, top, object_format, env)


def make_folder_repo(kept: Path, top: Path, env: Mapping[str, str]) -> Repo:
    """`kept` is there, for its owner only."""
    made = kept / f"{_NAME}.{os.getpid()}-{os.urandom(4).hex()}"
    command = ["git", "init", "-q", "--bare", "--template=", os.fspath(made)]
    done = subprocess.run(
        command, env=scrubbed_env(env, (*LOCATING, *MISLEADING)), stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise GitFailed(command, done.returncode, done.stderr.decode("utf-8", "replace"))
    made.chmod(0o700)
    (made / "info").mkdir(exist_ok=True)
    with suppress(OSError):  # somebody else was quicker
        made.rename(kept / _NAME)
    remove_tree(made)
    found = folder_repo(kept, top, env)
    assert found is not None, kept
    return found
