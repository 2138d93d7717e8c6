"""Runs that are folded into one ref: `refs/wf/archive` (formats.md, section 4).

Its tip has a tree `<id>/entry.json` of every run that is in it, and reaches the tips of all of
them by its parents: the archive before, and the refs of the runs that a call folded in. An entry
says which refs the run had, where they were, and what a list of runs shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from git_wf.core.checkpoint import check_format, dump_json, load_json
from git_wf.core.names import Names, Oid, RefName, RunId, is_run_id
from git_wf.core.trailers import message, parse_trailers
from git_wf.errors import StateUnreadable
from git_wf.store.objects import TREE_MODE, Commit, Entry, ObjectReader, Tree, decode_tree

ENTRY = b"entry.json"


@dataclass(frozen=True)
class ArchivedRun:
    """What `entry.json` says."""

    run_id: RunId
    operation: str
    refs: Mapping[RefName, Oid]  # that the run had
    summary: Mapping[str, Any]  # as `git wf runs --json` has it

    def encode(self) -> bytes:
        return dump_json(
            {
                "format": 1,
                "run_id": self.run_id,
                "operation": self.operation,
                "refs": dict(self.refs),
                "summary": dict(self.summary),
            }
        )

    @classmethod
    def decode(cls, data: bytes, origin: str) -> ArchivedRun:
        loaded = load_json(data, origin)
        check_format(loaded, origin)
        refs, summary = loaded.get("refs"), loaded.get("summary")
        if not isinstance(refs, dict) or not isinstance(summary, dict):
            raise StateUnreadable(f"read '{origin}': 'refs' or 'summary' is missing")
        return cls(
            RunId(str(loaded.get("run_id"))),
            str(loaded.get("operation")),
            {RefName(ref): Oid(str(oid)) for ref, oid in refs.items()},
            summary,
        )


@dataclass(frozen=True)
class Archive:
    """The archive as it is; `tip` is None where there is none."""

    names: Names
    tip: Oid | None = None
    tree: Tree = field(default_factory=dict, repr=False)  # run id → tree of its entry

    @classmethod
    def read(cls, reader: ObjectReader, names: Names, tip: Oid | None) -> Archive:
        if tip is None:
            return cls(names)
        return cls(names, tip, reader.read_tree(f"{tip}^{{tree}}"))

    @property
    def runs(self) -> list[RunId]:
        found = (name.decode("utf-8", "surrogateescape") for name in self.tree)
        return sorted(RunId(name) for name in found if is_run_id(name))

    def __contains__(self, run: object) -> bool:
        return isinstance(run, str) and run.encode("utf-8", "surrogateescape") in self.tree

    def entry(self, reader: ObjectReader, run: RunId) -> ArchivedRun:
        """Raises `StateUnreadable`."""
        origin = f"{self.names.archive_ref}:{run}/{ENTRY.decode()}"
        tree = reader.read_tree(self.tree[run.encode()].oid)
        if ENTRY not in tree:
            raise StateUnreadable(f"no object '{origin}'")
        return ArchivedRun.decode(reader.read_blob(tree[ENTRY].oid), origin)

    def entries(self, reader: ObjectReader) -> dict[RunId, ArchivedRun | StateUnreadable]:
        """All of them, by two processes; for one that cannot be read, what is wrong."""
        form, trees = reader.repo.object_format, {}
        found = reader.read_many(self.tree[run.encode()].oid for run in self.runs)
        for run in self.runs:
            _, listed = found.get(self.tree[run.encode()].oid, ("", b""))
            trees[run] = decode_tree(listed, form)
        blobs = reader.read_many(tree[ENTRY].oid for tree in trees.values() if ENTRY in tree)
        return {run: self._decoded(run, tree, blobs) for run, tree in trees.items()}

    def _decoded(
        self, run: RunId, tree: Tree, blobs: Mapping[Oid, tuple[str, bytes]]
    ) -> ArchivedRun | StateUnreadable:
        origin = f"{self.names.archive_ref}:{run}/{ENTRY.decode()}"
        if ENTRY not in tree or tree[ENTRY].oid not in blobs:
            return StateUnreadable(f"no object '{origin}'")
        try:
            return ArchivedRun.decode(blobs[tree[ENTRY].oid][1], origin)
        except StateUnreadable as err:
            return err


def entry_tree(entry: Oid) -> Tree:
    return {ENTRY: Entry("100644", entry)}


def with_entries(tree: Tree, added: Mapping[RunId, Oid], removed: Iterable[RunId] = ()) -> Tree:
    """The tree of an archive with other runs in it; `added` are the trees of their entries."""
    gone = {run.encode() for run in removed}
    left = {name: entry for name, entry in tree.items() if name not in gone}
    return {**left, **{run.encode(): Entry(TREE_MODE, oid) for run, oid in added.items()}}


def archive_message(names: Names, first_line: str, operation: str, count: int) -> str:
    """`WF-Archived` is how many runs are in the archive: it tells a commit of an archive."""
    trailers = [(names.trailer("Op"), operation), (names.trailer("Archived"), str(count))]
    return message(first_line, trailers)


def is_archive_commit(names: Names, commit: Commit) -> bool:
    return names.trailer("Archived") in parse_trailers(commit.message)


def archive_parents(before: Oid | None, tips: Sequence[Oid]) -> tuple[Oid, ...]:
    """No parent twice: git would not take it."""
    first = () if before is None else (before,)
    return tuple(dict.fromkeys((*first, *tips)))
