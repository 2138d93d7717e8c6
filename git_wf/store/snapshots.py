"""Snapshots of a workspace as git keeps them: a commit each, without parent, on a ref of its own.

`refs/wf/snapshots/<workspace>/<ulid>` is one snapshot, `refs/wf/cursor/<workspace>` the one that
the workspace was last saved as, or restored to. Beside them, in `git-wf/snapshots/<workspace>` of
the git directory, is what is remembered of the files (`captured`), so that the next save is quick:
it can be removed at any time.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import dump_json, load_json
from git_wf.core.names import Names, Oid, RefName
from git_wf.core.snapshot import Record, Snapshot
from git_wf.core.trailers import one_line, plain_text
from git_wf.errors import StateUnreadable, UserError
from git_wf.store.captured import CapturedIndex, NotKnown
from git_wf.store.files import make_directory, remove_tree, write_atomic
from git_wf.store.identity import FALLBACK, Identity, read_identity
from git_wf.store.objects import (
    TREE_MODE,
    Commit,
    Entry,
    ObjectReader,
    encode_commit,
    encode_tree,
    hash_object,
)
from git_wf.store.packs import (
    KeptPack,
    Pack,
    consolidate,
    release_stale_keeps,
)
from git_wf.store.refs import RefUpdate, list_refs, move_refs
from git_wf.store.repo import Repo
from git_wf.store.scan import Scan, Scanner, State, UnitState, index_name, write_blobs
from git_wf.store.trees import TreeEditor

_PACKS = 50  # small packs of ours until they are folded into one
_VERSION = 1  # of what is remembered: another one is forgotten
FILES, RECORD = b"files", b"snapshot.json"


class LeanPack(Pack):
    """A pack without the trees that the repository has, as far as they are known."""

    known: frozenset[Oid] = frozenset()

    def add(self, kind: str, data: bytes) -> Oid:
        if kind == "tree":
            oid = hash_object(kind, data, self.repo.object_format)
            if oid in self.known:
                return oid
        return super().add(kind, data)


@dataclass(frozen=True)
class Contents:
    """The content of a snapshot, or of the workspace: paths are bytes, `files` is a tree."""

    files: Oid
    usual: tuple[int, int]
    modes: Mapping[bytes, int]
    empty: Sequence[bytes]
    left_out: Mapping[bytes, str]

    @classmethod
    def of_record(cls, files: Oid, record: Record) -> Contents:
        plain, executable = (int(mode, 8) for mode in record.usual_modes)
        return cls(
            files=files,
            usual=(plain, executable),
            modes={os.fsencode(path): int(mode, 8) for path, mode in record.modes.items()},
            empty=[os.fsencode(path) for path in record.empty_dirs],
            left_out={os.fsencode(path): why for path, why in record.left_out.items()},
        )

    @classmethod
    def of_state(cls, files: Oid, state: State) -> Contents:
        return cls(files, state.usual, state.modes, state.empty, state.left_out)


class SnapshotStore:
    """The snapshots of one workspace. `repo` stands in it; `workspace` is its name in refs."""

    def __init__(self, repo: Repo, names: Names, workspace: str, *, is_own: bool) -> None:
        self.repo = repo
        self.workspace = workspace
        self.is_own = is_own
        self._names = names
        self.place = repo.common_dir / "git-wf" / "snapshots" / workspace
        self.lock_path = repo.common_dir / "git-wf" / f"snapshots-{workspace}.lock"
        self.reader = ObjectReader(repo)

    def close(self) -> None:
        self.reader.close()

    # Refs.

    @property
    def cursor_ref(self) -> RefName:
        return self._names.cursor_ref(self.workspace)

    def ref(self, key: str) -> RefName:
        return RefName(f"{self._names.snapshots_root(self.workspace)}/{key}")

    def snapshots(self) -> list[Snapshot]:
        """All that can be read, the oldest first. One whose record is damaged is left out."""
        root = self._names.snapshots_root(self.workspace)
        refs = list_refs(self.repo, root)
        records = self._records(set(refs.values()))
        found: list[Snapshot] = []
        for ref in sorted(refs):
            record = records.get(refs[ref])
            if record is not None:
                key = ref[len(root) + 1 :]
                found.append(Snapshot(refs[ref], key, len(found) + 1, record))
        return found

    def cursor(self) -> Oid | None:
        return list_refs(self.repo, self.cursor_ref).get(self.cursor_ref)

    def _records(self, ids: Iterable[Oid]) -> dict[Oid, Record]:
        """The record of each snapshot: one process reads them all."""
        wanted = list(ids)
        if not wanted:
            return {}
        told = self.repo.git(
            "cat-file", "--batch-check=%(objectname)", "--buffer",
            stdin="".join(f"{one}:snapshot.json\n" for one in wanted).encode(),
        )  # fmt: skip
        blobs = dict(zip(wanted, os.fsdecode(told).splitlines(), strict=True))
        read = self.reader.read_many(Oid(blob) for blob in blobs.values() if " " not in blob)
        records = {}
        for one, blob in blobs.items():
            _, data = read.get(Oid(blob), ("", b""))
            with suppress(StateUnreadable):
                records[one] = Record.from_json(load_json(data, one), one)
        return records

    def contents(self, snapshot: Snapshot) -> Contents:
        entry = self.reader.read_tree(f"{snapshot.id}^{{tree}}").get(FILES)
        if entry is None:
            raise StateUnreadable(f"snapshot '{snapshot.id}' has no files")
        return Contents.of_record(entry.oid, snapshot.record)

    def pair(self, snapshot: Snapshot) -> tuple[Oid, Oid]:
        """The tree of the state before a snapshot, and its own."""
        return self._pairs([snapshot])[snapshot.id]

    def move(self, updates: Sequence[RefUpdate], reason: str, moment: datetime) -> None:
        told = f"{self._names.namespace}: {reason}"
        move_refs(self.repo, updates, told, self.identity.env(moment))

    def move_cursor(self, to: str | None, reason: str, moment: datetime) -> None:
        was = self.cursor()
        if was != to:
            new = Oid(to) if to else None
            self.move([RefUpdate(self.cursor_ref, new, was)], reason, moment)

    @cached_property
    def identity(self) -> Identity:
        """Whose name is on a snapshot matters less than that it is made."""
        try:
            return read_identity(self.repo)
        except UserError:
            return Identity(FALLBACK, FALLBACK, is_fallback=True)

    def delete(self, snapshots: Sequence[Snapshot], moment: datetime) -> None:
        """Their refs go, and the cursor, where it is at one of them. For whoever has the lock."""
        cursor = self.cursor()
        updates = [RefUpdate(self.ref(one.key), None, Oid(one.id)) for one in snapshots]
        if any(one.id == cursor for one in snapshots):
            updates.append(RefUpdate(self.cursor_ref, None, cursor))
        self.move(updates, "delete snapshots", moment)
        if not self.is_own:
            # Nobody but us ever does it there, and nobody but us writes there.
            self.repo.git("reflog", "expire", "--expire=now", "--all")
            self.repo.git("gc", "--quiet", "--prune=now")

    # How much was changed.

    def counts(self, snapshots: Sequence[Snapshot]) -> dict[str, tuple[int, int, int]]:
        """Id → files changed, insertions and deletions, against the state before each.

        That is the snapshot that it was made on, else the commit that the worktree was at.
        """
        known = self._known_counts()
        missing = [one for one in snapshots if one.id not in known]
        if missing:
            pairs = self._pairs(missing)
            found = changed_counts(self.repo, list(pairs.values()))
            made = {one: found[pair] for one, pair in pairs.items()}
            known.update(made)
            self.note_counts(made)
        return {one.id: known[one.id] for one in snapshots}

    def note_counts(self, counts: Mapping[str, tuple[int, int, int]]) -> None:
        """They never change. Best effort: without them they are counted again."""
        with suppress(OSError):
            data = {**self._known_counts(), **counts}
            write_atomic(self.place / "counts.json", json.dumps(data).encode())

    def _known_counts(self) -> dict[str, tuple[int, int, int]]:
        try:
            data = json.loads((self.place / "counts.json").read_bytes())
            return {str(one): (int(n[0]), int(n[1]), int(n[2])) for one, n in data.items()}
        except (OSError, ValueError, TypeError, IndexError, AttributeError):
            return {}

    def _pairs(self, snapshots: Sequence[Snapshot]) -> dict[str, tuple[Oid, Oid]]:
        """Id → the tree before, and its own."""
        empty = hash_object("tree", b"", self.repo.object_format)
        wanted: list[str] = []
        for one in snapshots:
            since, head = one.record.since, one.record.head
            wanted += [f"{one.id}:files", f"{since}:files", f"{head}^{{tree}}"]
        told = self.repo.git(
            "cat-file", "--batch-check=%(objectname)", "--buffer",
            stdin="".join(f"{expression}\n" for expression in wanted).encode(),
        )  # fmt: skip
        found = [None if " " in line else Oid(line) for line in os.fsdecode(told).splitlines()]
        return {
            one.id: (since or head or empty, own or empty)
            for one, own, since, head in zip(
                snapshots, found[0::3], found[1::3], found[2::3], strict=True
            )
        }

    # What is remembered of the files.

    def make_place(self) -> None:
        """And removes what killed processes left there. For whoever holds the lock."""
        make_directory(self.place)
        for left in [*self.place.glob("scan-*"), *self.place.glob("look-*")]:
            remove_tree(left)
        release_stale_keeps(self.repo)

    def remembered(self, snapshots: Iterable[Snapshot]) -> State | None:
        """None where there is nothing, or nothing that can be relied on."""
        try:
            data = json.loads((self.place / "state.json").read_bytes())
            # Objects that no snapshot holds any more can go at any time.
            if data["version"] != _VERSION or all(data["snapshot"] != s.id for s in snapshots):
                return None
            return self._state(data)
        except (OSError, ValueError, KeyError, TypeError, NotKnown):
            return None

    def _state(self, data: Mapping[str, Any]) -> State:
        units = {}
        for name, told in data["units"].items():
            prefix = os.fsencode(name)
            raw = (self.place / index_name(prefix)).read_bytes()
            starts = (self.place / f"{index_name(prefix)}.starts").read_bytes()
            if not raw.endswith(bytes.fromhex(told["checksum"])):
                raise ValueError("another index")
            index = CapturedIndex.read(raw, self.repo.object_format, starts)
            forced = [os.fsencode(one) for one in told["forced"]]
            units[prefix] = UnitState(index, forced, told["seen"], told["has_patterns"])
        return State(
            units=units,
            snapshot=Oid(data["snapshot"]),
            tree=Oid(data["tree"]),
            usual=(data["usual"][0], data["usual"][1]),
            modes={os.fsencode(path): mode for path, mode in data["modes"].items()},
            empty=[os.fsencode(path) for path in data["empty"]],
            left_out={os.fsencode(path): why for path, why in data["left_out"].items()},
        )

    def remember(self, state: State) -> None:
        """The indexes first: what does not belong together is not relied on."""
        units = {}
        for prefix, unit in state.units.items():
            raw = unit.index.encode()
            name = index_name(prefix)
            write_atomic(self.place / name, raw)
            write_atomic(self.place / f"{name}.starts", unit.index.starts.tobytes())
            units[os.fsdecode(prefix)] = {
                "checksum": raw[-len(self.repo.null_oid) // 2 :].hex(),
                "forced": [os.fsdecode(one) for one in unit.forced],
                "seen": unit.seen,
                "has_patterns": unit.has_patterns,
            }
        data = {
            "version": _VERSION,
            "snapshot": state.snapshot,
            "tree": state.tree,
            "usual": state.usual,
            "modes": {os.fsdecode(path): mode for path, mode in state.modes.items()},
            "empty": [os.fsdecode(path) for path in state.empty],
            "left_out": {os.fsdecode(path): why for path, why in state.left_out.items()},
            "units": units,
        }
        write_atomic(self.place / "state.json", json.dumps(data).encode())
        used = {index_name(prefix) for prefix in state.units}
        for path in self.place.glob("index-*"):
            if path.name.removesuffix(".starts") not in used:
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        (self.place / "state.json").unlink(missing_ok=True)

    # A save.

    def make_tree(self, pack: LeanPack, scanner: Scanner, scan: Scan) -> Oid:
        """The tree of what a scan found; what is new goes into `pack`."""
        write_blobs(scanner, scan, pack)
        before = scan.before.tree if scan.before is not None else None
        if before is None:
            pack.known = self._head_trees()
        empty = hash_object("tree", b"", self.repo.object_format)
        return TreeEditor(self.reader).edit(pack, before or empty, scan.changes)

    def _head_trees(self) -> frozenset[Oid]:
        if not self.is_own or self.reader.find("HEAD^{tree}") is None:
            return frozenset()
        told = self.repo.git("ls-tree", "-r", "-d", "--format=%(objectname)", "HEAD")
        top = self.reader.require("HEAD^{tree}").oid
        return frozenset([top, *(Oid(one) for one in os.fsdecode(told).splitlines())])

    def save(
        self, scanner: Scanner, scan: Scan, record: Record, key: str, moment: datetime
    ) -> Snapshot:
        """Makes a snapshot of what a scan found, which becomes the current one.

        Raises `GitFailed`, `Conflict` and `OSError`: then there is none, and nothing is lost.
        """
        pack = LeanPack(self.repo)
        try:
            files = self.make_tree(pack, scanner, scan)
            record = replace(record, **_permissions(scan.state), **_not_files(scan.state))
            commit = self._commit(pack, files, record, moment)
            pack.complete(self.reader, files, self._safe_tree(scan))
            kept = pack.write()
        finally:
            pack.discard()
        try:
            updates = [
                RefUpdate(self.ref(key), commit, None),
                RefUpdate(self.cursor_ref, commit, self.cursor()),
            ]
            self.move(updates, f"snapshot {one_line(record.message)}", moment)
        finally:
            if kept is not None:
                kept.release()
        scan.state.snapshot, scan.state.tree = commit, files
        self.remember(scan.state)
        self._note_pack(kept)
        return Snapshot(commit, key, 0, record)

    def _safe_tree(self, scan: Scan) -> Oid | None:
        """A tree whose objects something refers to already, close to what is new."""
        if scan.before is not None:
            return scan.before.tree
        found = self.reader.find("HEAD^{tree}") if self.is_own else None
        return found.oid if found is not None else None

    def _commit(self, pack: Pack, files: Oid, record: Record, moment: datetime) -> Oid:
        blob = pack.add("blob", dump_json(record.to_json()))
        tree = {FILES: Entry(TREE_MODE, files), RECORD: Entry("100644", blob)}
        root = pack.add("tree", encode_tree(tree, self.repo.object_format))
        commit = Commit(
            tree=root,
            parents=(),
            author=self.identity.author_line(moment),
            committer=self.identity.committer_line(moment),
            message=f"{plain_text(record.message).strip()}\n",
        )
        return pack.add("commit", encode_commit(commit))

    def _note_pack(self, kept: KeptPack | None) -> None:
        """Small packs are folded into one when there are many."""
        note = self.place / "packs"
        with suppress(OSError):
            told = note.read_text("utf-8", "surrogateescape") if note.exists() else ""
            paths = [Path(line) for line in told.splitlines()]
            paths += kept.paths if kept is not None else ()
            if len(paths) >= _PACKS:
                paths = list(consolidate(self.repo, paths))
            write_atomic(note, os.fsencode("".join(f"{path}\n" for path in paths)))

    @contextmanager
    def tree_for_now(self, scanner: Scanner, scan: Scan) -> Iterator[tuple[Oid, dict[str, str]]]:
        """The tree of what a scan found, for the block only; and an environment that has it."""
        with tempfile.TemporaryDirectory(prefix="look-", dir=self.place) as directory:
            objects = Path(directory) / "objects"
            objects.mkdir()
            apart = replace(self.repo, common_dir=Path(directory))
            pack = LeanPack(apart)
            files = self.make_tree(pack, scanner, scan)
            kept = pack.write()
            if kept is not None:
                kept.release()
            yield files, {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fspath(objects)}


def changed_counts(
    repo: Repo, pairs: Sequence[tuple[Oid, Oid]]
) -> dict[tuple[Oid, Oid], tuple[int, int, int]]:
    """Files changed, insertions and deletions between two trees, for each pair; one process."""
    counts = {pair: (0, 0, 0) for pair in pairs}
    told = repo.git(
        "diff-tree", "-r", "--shortstat", "--no-renames", "--no-ext-diff", "--stdin",
        stdin="".join(f"{old} {new}\n" for old, new in counts).encode(),
    )  # fmt: skip
    pair = pairs[0]
    for line in os.fsdecode(told).splitlines():
        words = line.split()
        if len(words) == 2:
            pair = (Oid(words[0]), Oid(words[1]))
        elif words:
            numbers = {word[0]: int(n) for n, word in pairwise(words) if n.isdecimal()}
            counts[pair] = (numbers["f"], numbers.get("i", 0), numbers.get("d", 0))
    return counts


def _permissions(state: State) -> dict[str, Any]:
    return {
        "usual_modes": [f"{mode:o}" for mode in state.usual],
        "modes": {os.fsdecode(path): f"{mode:o}" for path, mode in state.modes.items()},
    }


def _not_files(state: State) -> dict[str, Any]:
    return {
        "empty_dirs": [os.fsdecode(path) for path in state.empty],
        "left_out": {os.fsdecode(path): why for path, why in state.left_out.items()},
    }
