"""Two trees of files compared: what became of each file, and the text that git prints of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_wf.core.names import Oid
from git_wf.core.snapshot import FileChange
from git_wf.errors import EXIT_USAGE, GitFailed, UserError
from git_wf.store.repo import Repo

_PLAIN = ("diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv")


def changed_files(repo: Repo, old: Oid, new: Oid, env: Mapping[str, str]) -> list[FileChange]:
    """By path. `env` is that of calls that see both trees."""
    told = repo.git(*_PLAIN, "-z", "--raw", "--numstat", "--no-abbrev", old, new, env=env)
    fields = iter(os.fsdecode(told).split("\0"))
    letters: dict[str, tuple[str, str | None]] = {}
    found = []
    for field in fields:
        if field.startswith(":"):
            letter = field.rsplit(" ", 1)[1][:1]
            old_path = next(fields) if letter == "R" else None
            letters[next(fields)] = (letter, old_path)
        elif field:
            added, removed, path = field.split("\t", 2)
            if not path:  # of a renamed file both names follow
                next(fields)
                path = next(fields)
            letter, old_path = letters[path]
            found.append(FileChange(letter, path, old_path, _number(added), _number(removed)))
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def diff_text(
    repo: Repo, old: Oid, new: Oid, words: Sequence[str], env: Mapping[str, str]
) -> bytes:
    """What git prints with the options `words`; `UserError` for one that it does not know."""
    try:
        return repo.git(*_PLAIN, *words, old, new, env=env)
    except GitFailed as err:
        if err.status != EXIT_USAGE:
            raise
        told = " ".join(words)
        raise UserError(f"git does not take '{told}'", hint="git wf snapshot diff -h") from err
