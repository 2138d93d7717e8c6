"""Giving a workspace back the bytes of a snapshot: first a plan, then all of it, then a look.

The plan tells what stands in the way: something that was never captured is never overwritten or
removed. New contents are all written out before the first file is touched, and every file comes
into its place by one rename. Nothing goes through a symlink.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from git_wf.core.names import Oid
from git_wf.errors import StateUnreadable, WfError
from git_wf.store.beneath import Beneath, is_absent
from git_wf.store.captured import Look, Record, git_mode
from git_wf.store.files import remove_tree, write_atomic
from git_wf.store.objects import Entry, ObjectReader, new_hash, object_header
from git_wf.store.repo import Repo
from git_wf.store.scan import IGNORES, Scan, State

_SHOWN = 20  # obstacles that are told


class Target(Protocol):
    """What a workspace is to become: see `snapshots.Contents`."""

    @property
    def files(self) -> Oid: ...
    @property
    def usual(self) -> tuple[int, int]: ...
    @property
    def modes(self) -> Mapping[bytes, int]: ...
    @property
    def empty(self) -> Sequence[bytes]: ...
    @property
    def left_out(self) -> Mapping[bytes, str]: ...


def target_mode(target: Target, path: bytes, entry: Entry) -> int:
    return target.modes.get(path, target.usual[entry.mode == "100755"])


@dataclass
class Plan:
    """What a restore does.

    `kept`: captured now and not in the target, but not gone then either. `uncaptured`: files that
    have to be captured before they are replaced.
    """

    writes: dict[bytes, tuple[Entry, int]] = field(default_factory=dict)  # with permissions
    removals: dict[bytes, Entry] = field(default_factory=dict)
    modes: dict[bytes, int] = field(default_factory=dict)
    directories: list[bytes] = field(default_factory=list)  # to be made
    empty: list[bytes] = field(default_factory=list)  # to be there, those to be made among them
    kept: list[bytes] = field(default_factory=list)
    uncaptured: list[bytes] = field(default_factory=list)
    obstacles: dict[bytes, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.writes or self.removals or self.modes or self.directories)


class Differences:
    """Current and target entry of every path where the two differ."""

    def __init__(self, repo: Repo, scan: Scan, target: Oid) -> None:
        before = scan.before
        empty = Oid(new_hash_of_empty_tree(repo))
        base = before.tree if before is not None and before.tree is not None else empty
        listed = dict(changed_entries(repo, base, target))
        self.pairs: dict[bytes, tuple[Entry | None, Entry | None]] = {}
        for path in {*listed, *scan.changes}:
            if path in listed:
                was, wanted = listed[path]
            else:
                was = wanted = entry_of(before, path)
            now = scan.changes.get(path, was) if path in scan.changes else was
            if now != wanted:
                self.pairs[path] = (now, wanted)


def new_hash_of_empty_tree(repo: Repo) -> str:
    digest = new_hash(repo.object_format)
    digest.update(object_header("tree", 0))
    return str(digest.hexdigest())


def changed_entries(
    repo: Repo, old: Oid, new: Oid
) -> Iterator[tuple[bytes, tuple[Entry | None, Entry | None]]]:
    """Path → its entries in two trees, where they differ."""
    told = repo.git("diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", old, new)
    fields = told.split(b"\0")
    for meta, path in zip(fields[0::2], fields[1::2], strict=False):
        modes_and_ids = os.fsdecode(meta).lstrip(":").split(" ")
        yield path, (_entry(*modes_and_ids[0:4:2]), _entry(*modes_and_ids[1:4:2]))


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, Oid(oid))


def unit_of(state: State, path: bytes) -> bytes:
    """The prefix of the unit that a path belongs to."""
    return max((prefix for prefix in state.units if path.startswith(prefix)), key=len)


def entry_of(state: State | None, path: bytes) -> Entry | None:
    """What is remembered of a path."""
    if state is None:
        return None
    prefix = unit_of(state, path)
    stored = state.units[prefix].index.find(path[len(prefix) :])
    return stored.entry if stored is not None else None


class Planner:
    """Plans one restore. `only`: paths, or directories, that it is restricted to."""

    def __init__(
        self, repo: Repo, scan: Scan, target: Target, only: Sequence[bytes] | None = None
    ) -> None:
        assert repo.work_tree is not None, repo
        self.repo = repo
        self.top = repo.work_tree
        self.scan = scan
        self.target = target
        self.only = only
        self.plan_ = Plan()

    def plan(self, ignored: Callable[[Sequence[bytes]], set[bytes]]) -> Plan:
        """`ignored` tells which of some paths are so by the rules of the target."""
        pairs = Differences(self.repo, self.scan, self.target.files).pairs
        chosen = {path: pair for path, pair in pairs.items() if self._is_chosen(path)}
        plan = self.plan_
        for path, (now, wanted) in sorted(chosen.items()):
            if wanted is not None:
                plan.writes[path] = (wanted, target_mode(self.target, path, wanted))
            elif now is not None and self._is_left_out(path):
                plan.kept.append(path)
            elif now is not None:
                plan.removals[path] = now
        if any(_is_ignores(path) for path in chosen):
            for path in ignored(list(plan.removals)):
                del plan.removals[path]
                plan.kept.append(path)
        self._plan_modes(pairs)
        with Beneath(self.top) as beneath:
            self._plan_directories(beneath)
            for path in [*plan.writes, *(one + b"/" for one in plan.directories)]:
                self._see_what_is_there(beneath, path)
            self._see_parents(beneath)
        return plan

    def _is_chosen(self, path: bytes) -> bool:
        if self.only is None:
            return True
        return any(
            not one or path == one or path.startswith(one.rstrip(b"/") + b"/") for one in self.only
        )

    def _is_left_out(self, path: bytes) -> bool:
        return any(
            path == one or (one.endswith(b"/") and path.startswith(one))
            for one in self.target.left_out
        )

    def _plan_modes(self, pairs: Mapping[bytes, object]) -> None:
        """Of files that have the bytes already."""
        state, target = self.scan.state, self.target
        if state.usual == target.usual:
            paths: Iterable[bytes] = {*state.modes, *target.modes}
        else:
            paths = (
                prefix + name for prefix, unit in state.units.items() for name in unit.index.names()
            )
        for path in paths:
            entry = entry_of(state, path)
            if path in pairs or entry is None or entry.mode not in ("100644", "100755"):
                continue
            mode = target_mode(target, path, entry)
            if mode != state.mode(path, entry) and self._is_chosen(path):
                self.plan_.modes[path] = mode

    def _plan_directories(self, beneath: Beneath) -> None:
        for path in self.target.empty:
            if self._is_chosen(path):
                self.plan_.empty.append(path)
                found = _find(beneath, path)
                if found is None or not stat.S_ISDIR(found.st_mode):
                    self.plan_.directories.append(path)

    # What stands in the way.

    def _see_what_is_there(self, beneath: Beneath, path: bytes) -> None:
        """Of a file that is to come, or a directory, which ends with a slash."""
        parts = path.rstrip(b"/").split(b"/")
        for count in range(1, len(parts)):
            above = b"/".join(parts[:count])
            found = _find(beneath, above)
            if found is None:
                return
            if not stat.S_ISDIR(found.st_mode):
                if above not in self.plan_.removals:
                    self._obstacle(above, found)
                return
        name = path.rstrip(b"/")
        found = _find(beneath, name)
        if found is None or name in self.plan_.removals:
            return
        if stat.S_ISDIR(found.st_mode):
            if not path.endswith(b"/"):
                self._see_directory(beneath, name)
        elif entry_of(self.scan.state, name) is None:
            self._obstacle(name, found)

    def _obstacle(self, path: bytes, found: os.stat_result) -> None:
        """Something that was never captured; a file can be, before it goes."""
        left_out = self.scan.state.left_out.get(path)
        if left_out is not None:
            self.plan_.obstacles[path] = left_out
        elif git_mode(found) is not None:
            self.plan_.uncaptured.append(path)
        else:
            self.plan_.obstacles[path] = "neither a file nor a directory"

    def _see_directory(self, beneath: Beneath, directory: bytes) -> None:
        """It has to go: all that is in it has to be captured, and go as well."""
        for name, is_directory in beneath.names(directory):
            path = directory + b"/" + name
            if is_directory and name != b".git":
                self._see_directory(beneath, path)
            elif path not in self.plan_.removals:
                self.plan_.obstacles[path] = "never saved"

    def _see_parents(self, beneath: Beneath) -> None:
        """Whether the directories in which something changes can be written to."""
        seen: set[bytes] = set()
        for path in [*self.plan_.writes, *self.plan_.removals, *self.plan_.directories]:
            directory = path.rpartition(b"/")[0]
            while directory and directory not in seen:
                found = _find(beneath, directory)
                if found is not None and stat.S_ISDIR(found.st_mode):
                    break
                directory = directory.rpartition(b"/")[0]
            if directory in seen:
                continue
            seen.add(directory)
            if not beneath.is_writable(directory):
                self.plan_.obstacles[directory + b"/"] = "a directory that cannot be written to"


def _find(beneath: Beneath, path: bytes) -> os.stat_result | None:
    try:
        return beneath.find(path)
    except PermissionError:
        return None


def ignored_by(
    repo: Repo, reader: ObjectReader, place: Path, files: Oid
) -> Callable[[Sequence[bytes]], set[bytes]]:
    """Tells which paths are ignored by the rules in a tree: its `.gitignore` files."""

    def ignored(paths: Sequence[bytes]) -> set[bytes]:
        if not paths:
            return set()
        told = repo.git("ls-tree", "-r", "-z", files, "--")
        with tempfile.TemporaryDirectory(prefix="look-", dir=place) as directory:
            for line in told.split(b"\0"):
                meta, _, path = line.partition(b"\t")
                if path.rpartition(b"/")[2] == IGNORES and meta.startswith(b"100"):
                    oid = os.fsdecode(meta.split(b" ")[2])
                    write_atomic(Path(directory) / os.fsdecode(path), reader.read_blob(oid))
            apart = Repo(
                repo.git_dir, repo.common_dir, Path(directory), repo.object_format, repo.env
            )
            answer = apart.git(
                "check-ignore", "--no-index", "-z", "--stdin",
                stdin=b"".join(path + b"\0" for path in paths), ok=(0, 1),
            )  # fmt: skip
        return {path for path in answer.split(b"\0") if path}

    return ignored


# Doing it.


class Restorer:
    """Applies a plan to the workspace that `repo` stands in."""

    def __init__(self, repo: Repo, reader: ObjectReader, place: Path) -> None:
        assert repo.work_tree is not None, repo
        self.repo = repo
        self.top = repo.work_tree
        self.reader = reader
        self.journal = Journal(place)
        self._place = place
        self.written: dict[bytes, Look] = {}

    def apply(self, plan: Plan, note: Mapping[str, str | None]) -> None:
        """`note` is what is told where this is cut off. Raises `OSError` and `StateUnreadable`."""
        staging = self._staging()
        self.journal.begin(note, staging)
        try:
            contents = self._stage(plan, staging)
            with Beneath(self.top) as beneath:
                self._remove(beneath, plan)
                for path in plan.directories:
                    beneath.make_directories(path)
                for path, source in contents.items():
                    self._put(beneath, path, source)
                for path, mode in plan.modes.items():
                    beneath.chmod(path, mode)
                self._verify(beneath, plan)
        finally:
            remove_tree(staging)
        self.journal.end()

    def _staging(self) -> Path:
        """Where new contents are written: a rename from there has to be possible."""
        same = os.stat(self._place).st_dev == os.stat(self.top).st_dev
        where = self._place if same else self.top
        return Path(tempfile.mkdtemp(prefix=f"{STAGING}-", dir=where))

    def _stage(self, plan: Plan, staging: Path) -> dict[bytes, str]:
        """Writes all contents out. Path → the file that is to be moved there."""
        contents = {}
        for number, (path, (entry, mode)) in enumerate(plan.writes.items()):
            made = os.fspath(staging / str(number))
            if entry.mode == "120000":
                os.symlink(self.reader.read_blob(entry.oid), os.fsencode(made))
            else:
                self._write(made, entry.oid, mode)
            contents[path] = made
        return contents

    def _write(self, made: str, oid: Oid, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(made, flags, 0o600), "wb") as file:
            info = self.reader.stream(oid, file.write)
            if info.kind != "blob":
                raise StateUnreadable(f"object '{oid}' is a {info.kind}, not a blob")
            file.flush()
            os.fchmod(file.fileno(), mode)

    def _remove(self, beneath: Beneath, plan: Plan) -> None:
        """Files that go, and the directories that they leave empty."""
        kept = {*(_parent(path) for path in plan.writes), *plan.empty}
        for path in sorted(plan.removals, reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError):
                beneath.unlink(path)
        emptied = {above for path in plan.removals for above in _above(path)}
        needed = {above for one in kept for above in (one, *_above(one))}
        here = _own_directory(self.top)
        for directory in sorted(emptied - needed, key=len, reverse=True):
            if here is None or not (here + b"/").startswith(directory + b"/"):
                with suppress(OSError):
                    beneath.rmdir(directory)
        beneath.forget()

    def _put(self, beneath: Beneath, path: bytes, source: str) -> None:
        parent = _parent(path)
        beneath.make_directories(parent)
        try:
            beneath.replace(source, path)
        except IsADirectoryError:
            self._clear(beneath, path)
            beneath.replace(source, path)
        except OSError as err:
            if err.errno != errno.EXDEV:
                raise
            self._copy_into(beneath, path, source)
        self.written[path] = Look.of(beneath.lstat(path))

    def _clear(self, beneath: Beneath, directory: bytes) -> None:
        """Removes the empty directories at a place."""
        for name, is_directory in beneath.names(directory):
            if is_directory:
                self._clear(beneath, directory + b"/" + name)
        beneath.rmdir(directory)

    def _copy_into(self, beneath: Beneath, path: bytes, source: str) -> None:
        """Where something else is mounted below the workspace."""
        name = os.fsencode(Path(source).parent.name)
        near = _parent(path) + b"/" + name if b"/" in path else name
        self.journal.note_file(os.fsdecode(near))
        target = os.path.join(os.fsencode(self.top), near)
        if os.path.islink(source):
            os.symlink(os.readlink(os.fsencode(source)), target)
        else:
            shutil.copyfile(source, os.fsdecode(target), follow_symlinks=False)
            shutil.copymode(source, os.fsdecode(target))
        beneath.replace(os.fsdecode(target), path)

    def _verify(self, beneath: Beneath, plan: Plan) -> None:
        """Looks at every file that was touched."""
        for path in plan.removals:
            if path not in plan.writes and beneath.find(path) is not None:
                wanted = (*plan.writes, *plan.directories)
                if any(path == one or _is_above(path, one) for one in wanted):
                    continue
                raise _not_as_wanted(path)
        for path, (entry, mode) in plan.writes.items():
            found = beneath.find(path)
            if found is None or not self._is_as_wanted(beneath, path, found, entry, mode):
                raise _not_as_wanted(path)

    def _is_as_wanted(
        self, beneath: Beneath, path: bytes, found: os.stat_result, entry: Entry, mode: int
    ) -> bool:
        digest = new_hash(self.repo.object_format)
        digest.update(object_header("blob", found.st_size))
        if entry.mode == "120000":
            if not stat.S_ISLNK(found.st_mode):
                return False
            digest.update(beneath.readlink(path))
            return bool(digest.hexdigest() == entry.oid)
        if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) != mode:
            return False
        if not mode & 0o400:
            return True  # it was written by us, and nobody may look
        with open(beneath.open_file(path), "rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
        return bool(digest.hexdigest() == entry.oid)


def _not_as_wanted(path: bytes) -> WfError:
    return WfError(
        f"'{os.fsdecode(path)}' is not what was restored: somebody else is writing to it",
        hint="git wf snapshot list shows the state that was saved before",
    )


def _is_ignores(path: bytes) -> bool:
    return path.rpartition(b"/")[2] == IGNORES


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _above(path: bytes) -> Iterator[bytes]:
    """The directories that a path is in, but the top."""
    while path := _parent(path):
        yield path


def _is_above(directory: bytes, path: bytes) -> bool:
    return path.startswith(directory + b"/")


def _own_directory(top: Path) -> bytes | None:
    """Where this process stands below `top`: it is not taken away from under its shell."""
    try:
        inside = os.path.relpath(os.path.realpath("."), os.path.realpath(top))
    except OSError:
        return None
    return None if inside == "." or inside.startswith("..") else os.fsencode(inside)


STAGING = ".git-wf-restore"


class Journal:
    """What a restore has begun, so that the next command can tell, and clean up after a kill."""

    def __init__(self, place: Path) -> None:
        self._path = place / "restoring.json"
        self._data: dict[str, object] = {}

    def begin(self, note: Mapping[str, str | None], staging: Path) -> None:
        self._data = {"note": dict(note), "staging": os.fspath(staging), "files": []}
        self._write()

    def note_file(self, path: str) -> None:
        files = self._data["files"]
        assert isinstance(files, list), files
        if path not in files:
            files.append(path)
            self._write()

    def end(self) -> None:
        self._path.unlink(missing_ok=True)

    def clean(self, top: Path) -> dict[str, str | None] | None:
        """What was cut off, after which is cleaned up here; None where nothing was."""
        try:
            data = json.loads(self._path.read_bytes())
            staging = Path(data["staging"])
            note: dict[str, str | None] = data["note"]
            files = [str(one) for one in data["files"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            self.end()
            return None
        if staging.name.startswith(STAGING):
            remove_tree(staging)
        with Beneath(top) as beneath:
            for one in files:
                if Path(one).name.startswith(STAGING):
                    with suppress(OSError):
                        beneath.unlink(os.fsencode(one))
        self.end()
        return note

    def _write(self) -> None:
        write_atomic(self._path, json.dumps(self._data).encode())


def restored_state(
    scan: Scan, target: Target, plan: Plan, restorer: Restorer, *, whole: bool
) -> State:
    """What is remembered of the workspace when a plan has been applied to it."""
    state = scan.state
    edits: dict[bytes, dict[bytes, Record | None]] = {}
    for path in (*plan.removals, *plan.kept):
        prefix = unit_of(state, path)
        edits.setdefault(prefix, {})[path[len(prefix) :]] = None
    for path, look in restorer.written.items():
        prefix = unit_of(state, path)
        record = Record(plan.writes[path][0], look, True)
        edits.setdefault(prefix, {})[path[len(prefix) :]] = record
    for prefix, names in edits.items():
        unit = state.units[prefix]
        unit.index = unit.index.edited(names)
        if any(_is_ignores(name) for name in names):
            unit.seen = ""  # what is ignored has to be asked for again
    if whole:
        state.usual, state.modes = target.usual, dict(target.modes)
    else:
        _adopt_modes(state, target, plan)
    with Beneath(restorer.top) as beneath:
        every = {*state.empty, *plan.directories}
        state.empty = sorted(path for path in every if _is_empty(beneath, path))
    return state


def _adopt_modes(state: State, target: Target, plan: Plan) -> None:
    modes = {path: mode for path, (_, mode) in plan.writes.items()}
    for path, mode in {**modes, **plan.modes}.items():
        state.modes.pop(path, None)
        entry = entry_of(state, path)
        if entry is not None and entry.mode != "120000" and mode != state.mode(path, entry):
            state.modes[path] = mode


def _is_empty(beneath: Beneath, directory: bytes) -> bool:
    try:
        return not beneath.names(directory)
    except OSError as err:
        if is_absent(err) or err.errno == errno.EACCES:
            return False
        raise
