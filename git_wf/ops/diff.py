"""`git wf diff`: two checkpoints of a run compared, in their files or in their state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.context import join_artifacts
from git_wf.core.names import Oid
from git_wf.core.state_diff import StateChange, compare_states
from git_wf.core.timeline import Entry
from git_wf.errors import EXIT_USAGE, GitFailed, UserError
from git_wf.ops.adopt import before
from git_wf.ops.project import Project
from git_wf.ops.select import Selected, matching_runs, select
from git_wf.ops.show import read_artifact, read_record
from git_wf.store.repo import split_nul

_OWN_OPTIONS = ("diff", "--no-ext-diff", "--no-textconv", "--exit-code", "--color=always",
                "--color=never")  # fmt: skip
_STATUSES = {"A": "added", "D": "deleted", "M": "modified", "T": "type_changed", "R": "renamed",
             "C": "copied"}  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """Two checkpoints of a run; `first` may be the state before the first node."""

    project: Project = field(repr=False)
    run_id: str
    first: Entry
    second: Entry

    def head_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "from": self.first.to_json(),
            "to": self.second.to_json(),
        }

    # Files.

    def files(self, options: Sequence[str], paths: Sequence[str]) -> tuple[bytes, bool]:
        """What `git diff` prints, and whether it says that there is a difference.

        Raises `UserError` for options that git does not know.
        """
        done = self._git(("diff", "--no-ext-diff", "--no-textconv", *options), paths)
        return done[0], done[1] == 1

    def files_json(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        """What happened to each file, with counts of lines; None of a binary one."""
        plain = ("diff-tree", "-r", "-z", "--no-ext-diff", "--no-textconv", "--find-renames")
        named, _ = self._git((*plain, "--name-status"), paths)
        counted, _ = self._git((*plain, "--numstat"), paths)
        counts = _numbers(list(split_nul(counted)))
        listed = list(split_nul(named))
        found = []
        while listed:
            mark = listed.pop(0)[:1]
            old = listed.pop(0) if mark in "RC" else None
            path = listed.pop(0)
            insertions, deletions = counts.get(path, (None, None))
            found.append(
                {
                    "path": path,
                    "status": _STATUSES.get(mark, mark),
                    "old_path": old,
                    "insertions": insertions,
                    "deletions": deletions,
                }
            )
        return found

    def _git(self, command: Sequence[str], paths: Sequence[str]) -> tuple[bytes, int]:
        old, new = (_commit(one) for one in (self.first, self.second))
        try:
            done = self.project.repo.run(
                *command, old, new, "--", *paths, ok=(0, 1), cwd=self.project.host.cwd
            )
        except GitFailed as err:
            if err.status != EXIT_USAGE:
                raise
            told = " ".join(word for word in command if word not in _OWN_OPTIONS)
            raise UserError(f"git does not take '{told}'", hint="git wf diff -h") from err
        return done.stdout, done.returncode

    # State.

    def state(self) -> list[StateChange]:
        """What changed in context and outcomes. Raises `UserError` where one is not recorded."""
        return compare_states(*(self._state(one) for one in (self.first, self.second)))

    def _state(self, entry: Entry) -> dict[str, Any] | None:
        if not entry.ordinal:
            return None
        record = read_record(self.project, entry)
        if record is None:
            told = f"checkpoint {entry.name} has no metadata: its state is not known"
            raise UserError(told, hint="git wf diff without --state compares the files")
        values = record.get("context_values")
        if isinstance(values, dict):
            record["context_values"] = join_artifacts(
                values, lambda key: read_artifact(self.project, entry, key)
            )
        return record


def compare(project: Project, words: Sequence[str]) -> Compared:
    """`[RUN] [A] [B]`, or `A..B`. B is the newest checkpoint where it is left out, A the one
    before B. Raises `UserError`."""
    run, targets = _sorted_words(project, words)
    selected = select(project, run)
    if selected.target is not None:
        raise UserError(f"no run matches '{run[0]}'", hint="git wf runs lists them")
    second = _entry(project, selected, targets[1] if len(targets) > 1 else "0")
    if targets:
        first = _entry(project, selected, targets[0])
    else:
        first = before(selected, second) or selected.timeline.start
    return Compared(project, selected.run.run_id, first, second)


def _sorted_words(project: Project, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The run, if there is one, and up to two targets."""
    plain = [word for word in words if ".." not in word]
    ranges = [word for word in words if ".." in word]
    if ranges:
        if len(ranges) > 1 or len(plain) > 1:
            told = f"'{' '.join(words)}' is not a run and a range A..B"
            raise UserError(told, hint="git wf diff RUN @2..@7")
        first, _, last = ranges[0].partition("..")
        return plain, [first or "@0", last or "0"]
    if len(plain) == 3:
        return plain[:1], plain[1:]
    known = project.store.every()
    if plain and matching_runs(project, plain[0], known):
        return plain[:1], plain[1:]
    return [], plain


def _entry(project: Project, selected: Selected, target: str) -> Entry:
    return Selected(selected.run, selected.timeline, target).entry(project, "0")


def _commit(entry: Entry) -> Oid:
    if entry.commit is None:
        raise UserError(
            f"checkpoint {entry.name} has no run commit: its files are not known",
            hint="--state compares what was recorded of context and outcomes",
        )
    return entry.commit


def _numbers(listed: list[str]) -> dict[str, tuple[int | None, int | None]]:
    """Path → insertions and deletions, from `--numstat -z`."""
    found: dict[str, tuple[int | None, int | None]] = {}
    while listed:
        added, removed, path = listed.pop(0).split("\t", 2)
        if not path:  # of a renamed file both names follow
            path = listed[1]
            del listed[:2]
        found[path] = (_number(added), _number(removed))
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
