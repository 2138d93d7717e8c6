"""What `git log` tells of commits: one process for however many, none for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from git_wf.core.names import Oid
from git_wf.errors import GitFailed
from git_wf.store.repo import Repo

_FORMAT = "--format=%H%x00%T%x00%P%x00%ct%x00%B%x00"
_FIELDS = 5


class LogLine(NamedTuple):
    commit: Oid
    tree: Oid
    parents: tuple[Oid, ...]
    seconds: int  # of the committer, since 1970
    message: str


class CommitLog:
    """A `git log` that is under way: several of them can be."""

    def __init__(self, repo: Repo, *args: str, tips: Iterable[str] = ()) -> None:
        self._command = repo.command(
            "log", "--stdin", _FORMAT, "--no-show-signature", "--no-notes", "--no-mailmap",
            "--encoding=UTF-8", "--no-color", *args,
        )  # fmt: skip
        self._request = "".join(f"{tip}\n" for tip in tips).encode()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=repo.environment(),
            cwd=repo.common_dir,
            start_new_session=True,  # a Ctrl-C is for us
        )

    def lines(self) -> list[LogLine]:
        """Raises `GitFailed`, say where a commit is missing."""
        told, stderr = self._process.communicate(self._request)
        status = self._process.returncode
        if status != 0:
            raise GitFailed(self._command, status, stderr.decode("utf-8", "replace"))
        return list(_parse(told))


def _parse(told: bytes) -> Iterator[LogLine]:
    parts = told.decode("utf-8", "surrogateescape").split("\0")
    commits, trees, parents, seconds, messages = (
        parts[at : len(parts) - 1 : _FIELDS] for at in range(_FIELDS)
    )
    for commit, tree, above, moment, message in zip(
        commits, trees, parents, seconds, messages, strict=True
    ):
        yield LogLine(
            Oid(commit.lstrip("\n")),
            Oid(tree),
            tuple(Oid(one) for one in above.split(" ")) if above else (),
            int(moment),
            message,
        )


def first_parents(tip: Oid, lines: dict[Oid, LogLine]) -> Iterator[LogLine]:
    """The chain from a tip, newest first, as far as it is in `lines`."""
    here: Sequence[Oid] = (tip,)
    while here and here[0] in lines:
        line = lines[here[0]]
        yield line
        here = line.parents
