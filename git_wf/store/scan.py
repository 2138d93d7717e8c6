"""What a workspace holds now, byte for byte: by what is remembered of it, and what changed since.

A workspace is a worktree, or a folder outside any repository; repositories nested in it
(submodules too) are units of their own, whose files are captured without their `.git`. Captured
is what git tracks there, and what it does not ignore. Content is never converted. Two processes
tell what changed in a unit; only those files are read.

Paths are bytes, from the top of the workspace, or of the unit where that is said.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from git_wf.core.names import Oid
from git_wf.errors import GitFailed
from git_wf.store.beneath import Beneath, is_absent
from git_wf.store.blobs import BlobPack, Changing, FileHash, Hasher
from git_wf.store.captured import NOWHERE, CapturedIndex, Look, NotKnown, Record, git_mode
from git_wf.store.objects import GITLINK_MODE, Entry
from git_wf.store.packs import Pack
from git_wf.store.repo import Repo

_YOUNG = 2_000_000_000  # ns: git compares whole seconds, and some file systems keep no more
_TICK = 20_000_000  # ns: how far the time of a file can lag behind its change
_PASSES = 20  # scans of one unit until one finds no new directory
_SPECS = 100  # directories that git is asked about by name
_OPTIONS = (
    "-c", "core.checkStat=default",
    "-c", "core.trustctime=true",
    "-c", "core.fileMode=true",
    "-c", "core.symlinks=true",
    "-c", "core.sparseCheckout=false",
    "-c", "core.untrackedCache=false",
    "-c", "core.splitIndex=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
_UNREADABLE_DIRECTORY = re.compile(rb"^warning: could not open directory '(.*)': ", re.MULTILINE)
_MARKER = Entry(GITLINK_MODE, Oid("1" * 40))
IGNORES, ATTRIBUTES = b".gitignore", b".gitattributes"
_CONVERTING = (b"filter", b"working-tree-encoding")
TOO_LARGE, UNREADABLE, CHANGING, NO_FILE = (
    "larger than wf.snapshotMaxFile",
    "cannot be read",
    "changes while it is read",
    "neither a file nor a symlink",
)


@dataclass
class UnitState:
    """What is remembered of one repository in a workspace, or of the folder. Names are its own.

    `forced`: what it tracks although it is ignored. `seen` tells whether its index and the rules
    of what is ignored are still the same.
    """

    index: CapturedIndex
    forced: list[bytes] = field(default_factory=list)
    seen: str = ""
    has_patterns: bool = True


@dataclass
class State:
    """What is remembered of a workspace: that of the snapshot that it was last saved as.

    `modes`: permissions of files that do not have the `usual` ones (of plain and executable
    files). `left_out`: why a path, or a directory that ends with a slash, is not captured.
    """

    units: dict[bytes, UnitState]  # by their prefix, which ends with a slash; empty: the top
    snapshot: Oid | None = None
    tree: Oid | None = None
    usual: tuple[int, int] = (0o644, 0o755)
    modes: dict[bytes, int] = field(default_factory=dict)
    empty: list[bytes] = field(default_factory=list)
    left_out: dict[bytes, str] = field(default_factory=dict)

    def mode(self, path: bytes, entry: Entry) -> int:
        return self.modes.get(path, self.usual[entry.mode == "100755"])


@dataclass(frozen=True)
class Rules:
    """How a workspace is captured. `excludes` is the user's file of what is ignored everywhere."""

    max_file: int | None = None  # bytes
    excludes: Path | None = None
    attributes: Path | None = None
    has_filters: bool = False  # programs that convert content are configured
    extra: frozenset[bytes] = frozenset()  # to be captured although they are ignored


@dataclass
class Found:
    """A file or symlink as it was read; `hashed` is None where it is as it was."""

    entry: Entry
    look: Look
    permissions: int
    marked: bool
    hashed: FileHash | None

    @property
    def record(self) -> Record:
        return Record(self.entry, self.look, self.marked)


@dataclass
class Scan:
    """A workspace now. `changes` are against the tree of `before`; all, where that is None."""

    state: State
    before: State | None
    changes: dict[bytes, Entry | None]
    found: dict[bytes, Found]
    notices: list[str] = field(default_factory=list)
    is_settled: bool = False  # what is remembered is to be written again

    @property
    def is_changed(self) -> bool:
        before = self.before
        if before is None or self.changes:
            return True
        now = self.state
        return (now.modes, now.empty, now.left_out) != (before.modes, before.empty, before.left_out)


class Scanner:
    """Scans one workspace, whose top `repo` stands in; `own` are the repository's own names.

    `place` is where what is remembered is kept. `is_own` is false where the workspace is a folder
    outside of any repository: then `repo` only stores.
    """

    def __init__(self, repo: Repo, place: Path, rules: Rules, *, is_own: bool) -> None:
        assert repo.work_tree is not None, repo
        self.repo = repo
        self.top = repo.work_tree
        self.place = place
        self.rules = rules
        self.is_own = is_own
        self.hasher = Hasher(repo.object_format)
        self._now = 0

    def scan(self, before: State | None) -> Scan:
        self._now = self._clock()
        usable = before if before is not None and self._is_whole(before) else None
        scan = Scan(State({}), usable, {}, {})
        if usable is not None:
            scan.state = replace(usable, units={}, modes=dict(usable.modes), empty=[], left_out={})
        with tempfile.TemporaryDirectory(prefix="scan-", dir=self.place) as scratch:
            self._scan_unit(scan, b"", Path(scratch))
        if usable is None:
            self._settle_usual(scan)
        self._note_modes(scan)
        scan.state.empty.sort()
        return scan

    def _is_whole(self, before: State) -> bool:
        return b"" in before.units

    def _clock(self) -> int:
        """The present by the file system's clock, in nanoseconds."""
        marker = self.place / "clock"
        marker.touch(0o600)
        os.utime(marker)
        found = os.stat(marker)
        same = found.st_dev == os.stat(self.top).st_dev
        return found.st_mtime_ns if same else min(found.st_mtime_ns, time.time_ns())

    # One unit.

    def _scan_unit(self, scan: Scan, prefix: bytes, scratch: Path) -> None:
        unit = _Unit(self, scan, prefix, scratch)
        with unit.beneath:
            unit.scan()
        scan.state.units[prefix] = unit.state
        for nested in unit.state.index.gitlinks():
            self._scan_unit(scan, prefix + nested + b"/", scratch)

    def look(self, beneath: Beneath, path: bytes, known: Callable[[Look], Oid | None]) -> Found:
        """Reads what is at `path`, unless `known` has it by its look.

        Raises `OSError`; `_LeftOut` where it is there and cannot be captured.
        """
        status = beneath.lstat(path)
        mode, look = git_mode(status), Look.of(status)
        if mode is None:
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "a directory", os.fsdecode(path))
            raise _LeftOut(NO_FILE)
        oid = known(look)
        if oid is not None:
            return self._found(Entry(mode, oid), look, status, None)
        if mode == "120000":
            hashed = self.hasher.data(beneath.readlink(path))
            return self._found(Entry(mode, hashed.oid), look, status, hashed)
        if self.rules.max_file is not None and status.st_size > self.rules.max_file:
            raise _LeftOut(TOO_LARGE)
        return self._read(beneath, path)

    def _read(self, beneath: Beneath, path: bytes) -> Found:
        try:
            opened = beneath.open_file(path)
        except PermissionError as err:
            raise _LeftOut(UNREADABLE) from err
        try:
            status = os.fstat(opened)
            hashed = self.hasher.file(opened)
            after = os.fstat(opened)
        except Changing as err:
            raise _LeftOut(CHANGING) from err
        finally:
            os.close(opened)
        mode = git_mode(after)
        assert mode is not None, path
        same = Look.of(status) == Look.of(after)
        look = Look.of(after) if same else NOWHERE
        return self._found(Entry(mode, hashed.oid), look, after, hashed)

    def _found(
        self, entry: Entry, look: Look, status: os.stat_result, hashed: FileHash | None
    ) -> Found:
        youngest = max(look.mtime_ns, look.ctime_ns)
        coarse = look.mtime_ns % 1_000_000_000 == 0
        if hashed is not None and youngest >= self._now - (_YOUNG if coarse else _TICK):
            look = NOWHERE  # it can change once more without looking other
        marked = look == NOWHERE or youngest >= self._now - _YOUNG
        return Found(entry, look, stat.S_IMODE(status.st_mode), marked, hashed)

    # Permissions.

    def _settle_usual(self, scan: Scan) -> None:
        """The permissions that most files have, plain ones and executable ones."""
        counts: dict[tuple[bool, int], int] = {}
        for one in scan.found.values():
            if one.entry.mode != "120000":
                kind = (one.entry.mode == "100755", one.permissions)
                counts[kind] = counts.get(kind, 0) + 1
        usual = []
        for executable, default in ((False, 0o644), (True, 0o755)):
            of_kind = {mode: n for (is_x, mode), n in counts.items() if is_x == executable}
            most = max(of_kind, key=lambda mode: (of_kind[mode], mode == default), default=default)
            usual.append(default if of_kind.get(default) == of_kind.get(most) else most)
        scan.state.usual = (usual[0], usual[1])

    def _note_modes(self, scan: Scan) -> None:
        state = scan.state
        for path, entry in scan.changes.items():
            if entry is None:
                state.modes.pop(path, None)
        for path, one in scan.found.items():
            state.modes.pop(path, None)
            if one.entry.mode == "120000":
                continue
            if one.permissions != state.usual[one.entry.mode == "100755"]:
                state.modes[path] = one.permissions


_Seed = tuple[tuple[int, int, int, int, int, int], Oid]  # a look's key, and the id it had then


class _LeftOut(Exception):
    """Something is there, and cannot be captured; the text says why."""


class _Unit:
    """The scan of one unit, by its own names."""

    def __init__(self, scanner: Scanner, scan: Scan, prefix: bytes, scratch: Path) -> None:
        self.scanner = scanner
        self.scan_ = scan
        self.prefix = prefix
        self.top = scanner.top / os.fsdecode(prefix)
        self.repo = replace(scanner.repo, work_tree=self.top)
        self.own = self._own_repository()
        self.beneath = Beneath(self.top)
        self._index_file = scratch / f"index-{len(scan.state.units)}"
        self._scratch = scratch
        old = scan.before.units.get(prefix) if scan.before is not None else None
        self._old = old
        self.state = UnitState(
            old.index if old else CapturedIndex.empty(self.repo.object_format),
            old.forced if old else [],
            old.seen if old else "",
            old.has_patterns if old else True,
        )
        self._edits: dict[bytes, Record | None] = {}
        self._met_ignores = False
        self._written = False

    def _own_repository(self) -> Path | None:
        """The git directory of this unit; None where it has none of its own."""
        if not self.prefix:
            return self.scanner.repo.git_dir if self.scanner.is_own else None
        return git_directory(self.top)

    def scan(self) -> None:
        if self._old is None:
            self._take(self._tracked())
        else:
            self._drop_nested(name for name in self.state.index.gitlinks())
            self._flush(write=False)
            self._take(self._differing())
        self._take(self._again())
        self._take_others()
        self._settle_ignored()
        self._flush(write=False)

    # What is asked of git.

    def _start(self, *words: str, index: Path | None = None) -> subprocess.Popen[bytes]:
        repo = self.repo
        env = {"GIT_INDEX_FILE": os.fspath(index or self._index()), "GIT_OPTIONAL_LOCKS": "0"}
        if index is not None and self.own is not None and self.prefix:
            repo = replace(repo, git_dir=self.own)
        return subprocess.Popen(
            repo.command(*_OPTIONS, "--literal-pathspecs", *words),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=repo.environment(env), cwd=self.top, start_new_session=True,
        )  # fmt: skip

    def _names(self, *words: str, index: Path | None = None) -> list[bytes]:
        return self._answer(self._start(*words, index=index))

    def _answer(self, process: subprocess.Popen[bytes]) -> list[bytes]:
        out, err = process.communicate()
        if process.returncode != 0:
            command = process.args if isinstance(process.args, list) else []
            raise GitFailed(command, process.returncode, err.decode("utf-8", "replace"))
        for name in _UNREADABLE_DIRECTORY.findall(err):
            self._leave_out(name.rstrip(b"/") + b"/", UNREADABLE)
        return [name for name in out.split(b"\0") if name]

    def _index(self) -> Path:
        """A file that git reads the entries from."""
        if not self._written:
            if self._old is not None and self.state.index is self._old.index:
                return self.scanner.place / index_name(self.prefix)
            self._index_file.write_bytes(self.state.index.encode())
            self._written = True
        return self._index_file

    def _differing(self) -> list[bytes]:
        return self._names("diff-files", "--name-only", "-z", "--ignore-submodules=all")

    def _others(self, *words: str) -> list[bytes]:
        return self._names("ls-files", "-z", "--others", *self._excluding(), *words)

    def _excluding(self) -> list[str]:
        """The rules of what is ignored: of the directories, the repository and the user."""
        files = [self.scanner.rules.excludes, self._info("exclude")]
        return [
            "--exclude-per-directory=.gitignore",
            *(f"--exclude-from={path}" for path in files if path is not None and path.is_file()),
        ]

    def _info(self, name: str) -> Path | None:
        if self.own is None and self.prefix:
            return None
        directory = common_directory(self.own) if self.own else self.repo.common_dir
        return directory / "info" / name

    def _user_index(self) -> Path | None:
        path = self.own / "index" if self.own is not None else None
        return path if path is not None and path.is_file() else None

    # What there is.

    def _tracked(self) -> list[bytes]:
        """What the repository tracks; of the top also with what it knows of the files."""
        path = self._user_index()
        if path is None:
            return []
        index = self._read_user_index(path)
        if index is None:
            return self._names("ls-files", "-z", "--cached", index=path)
        names = list(dict.fromkeys(index.names()))
        if not self.prefix:
            self._seeds = _Seeds(self, index, path)
        links = set(index.gitlinks())
        return [name for name in names if name not in links]

    def _read_user_index(self, path: Path) -> CapturedIndex | None:
        try:
            data = path.read_bytes()
            index = CapturedIndex.read(data, self._own_format())
            if index.extensions() & {b"link", b"sdir"}:
                raise NotKnown("parts of it are elsewhere")
        except (NotKnown, OSError):
            return self._plain_index(path)
        return index

    def _own_format(self) -> str:
        return self.repo.object_format

    def _plain_index(self, path: Path) -> CapturedIndex | None:
        """An index of another form, as git writes it in the form that is read here."""
        copy = self._scratch / "user-index"
        try:
            shutil.copy2(path, copy)  # with its time, which tells what was changed just before
            kept = os.stat(copy)
            words = ("-c", "index.sparse=false", "update-index", "--no-split-index")
            self._names(*words, "--index-version", "2", index=copy)
            os.utime(copy, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            return CapturedIndex.read(copy.read_bytes(), self._own_format())
        except (GitFailed, NotKnown, OSError):
            return None

    def _again(self) -> list[bytes]:
        """What git does not tell, but has to be looked at every time."""
        index = self.state.index
        before = self.scan_.before
        left = [] if before is None else list(self._own_names(before.left_out))
        extra = self._own_names(self.scanner.rules.extra)
        every = {*left, *extra, *self.state.forced}
        return [name for name in sorted(every) if name[-1:] != b"/" and index.find(name) is None]

    def _own_names(self, paths: Iterable[bytes]) -> Iterator[bytes]:
        """Of paths from the top those that are in this unit and in none that is nested in it."""
        nested = [link + b"/" for link in self.state.index.gitlinks()]
        for path in paths:
            if path.startswith(self.prefix):
                name = path[len(self.prefix) :]
                if name and not any(name.startswith(link) for link in nested):
                    yield name

    _seeds: _Seeds | None = None

    def _take(self, names: Iterable[bytes]) -> None:
        """Looks at each name, and notes what is there now."""
        names = sorted(set(names))
        seeds, self._seeds = self._seeds, None
        known = seeds.known(names) if seeds is not None else {}
        for name in names:
            if seeds is None:
                stored = self.state.index.find(name)
                if stored is not None and stored.entry.mode == GITLINK_MODE:
                    continue
                seed = (stored.key, stored.entry.oid) if stored else None
            else:
                seed = known.get(name)
            self._look(name, seed)

    def _look(self, name: bytes, seed: _Seed | None) -> None:
        def as_known(look: Look) -> Oid | None:
            return seed[1] if seed is not None and look.key == seed[0] else None

        try:
            found = self.scanner.look(self.beneath, name, as_known)
        except _LeftOut as why:
            self._leave_out(name, str(why))
            self._gone(name)
        except OSError as err:
            if not is_absent(err) and err.errno not in (errno.EISDIR, errno.EACCES):
                raise
            if err.errno == errno.EACCES:
                self._leave_out(name, UNREADABLE)
            self._gone(name)
        else:
            self._note(name, found)

    def _note(self, name: bytes, found: Found) -> None:
        self._edits[name] = found.record
        path = self.prefix + name
        self.scan_.found[path] = found
        stored = self._old.index.find(name) if self._old is not None else None
        if stored is None or stored.entry != found.entry:
            self.scan_.changes[path] = found.entry
        else:
            self.scan_.changes.pop(path, None)
        if name.rpartition(b"/")[2] == IGNORES and path in self.scan_.changes:
            self._met_ignores = True

    def _gone(self, name: bytes) -> None:
        self._edits[name] = None
        path = self.prefix + name
        self.scan_.found.pop(path, None)
        if self._old is not None and self._old.index.find(name) is not None:
            self.scan_.changes[path] = None
        elif self.scan_.changes.get(path) is not None:
            del self.scan_.changes[path]
        if name.rpartition(b"/")[2] == IGNORES:
            self._met_ignores = True

    def _leave_out(self, name: bytes, why: str) -> None:
        self.scan_.state.left_out[self.prefix + name] = why

    def _flush(self, *, write: bool) -> None:
        """Makes the index one with what was noted."""
        edits = {
            name: record
            for name, record in self._edits.items()
            if record is not None or self.state.index.find(name) is not None
        }
        self._edits.clear()
        if not edits:
            return
        if len(self.state.index) == 0:
            records = {name: record for name, record in edits.items() if record is not None}
            self.state.index = CapturedIndex.of_records(records, self.repo.object_format)
        else:
            self.state.index = self.state.index.edited(edits)
        self.scan_.is_settled = True
        self._written = False

    # What git does not know yet.

    def _take_others(self) -> None:
        """New files; directories without any file; repositories that are new."""
        for _ in range(_PASSES):
            self._flush(write=True)
            told = self._others("--directory")
            self._take(name for name in told if not name.endswith(b"/"))
            empty, full = self._sorted_directories(
                name for name in told if name.endswith(b"/") and not self._is_left_out(name)
            )
            if not full or not self._take_within(full):
                empty += self._empty_within(full)
                self.scan_.state.empty += [self.prefix + name for name in empty]
                return
        raise GitFailed(["git", "ls-files"], 128, "error: directories are being made all the time")

    def _is_left_out(self, name: bytes) -> bool:
        return self.prefix + name in self.scan_.state.left_out

    def _sorted_directories(self, names: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The empty directories in those at `names`, and of `names` those with anything in them."""
        empty: list[bytes] = []
        full: list[bytes] = []
        for name in names:
            leaves: list[bytes] = []
            try:
                if self._has_file(name[:-1], leaves):
                    full.append(name)
                else:
                    empty += leaves
            except OSError as err:
                if not is_absent(err):
                    self._leave_out(name, UNREADABLE)
        return empty, full

    def _has_file(self, directory: bytes, leaves: list[bytes]) -> bool:
        """Whether anything but directories is below; else `leaves` are the empty ones."""
        found = self.beneath.names(directory)
        if not all(is_directory for _, is_directory in found):
            return True
        if not found:
            leaves.append(directory)
        return any(self._has_file(directory + b"/" + name, leaves) for name, _ in found)

    def _take_within(self, directories: Sequence[bytes]) -> bool:
        """Takes what is new in directories that have no captured file. Whether anything was."""
        specs = [os.fsdecode(name) for name in directories]
        told = self._others(*(("--", *specs) if len(specs) <= _SPECS else ()))
        within = tuple(directories)
        told = [name for name in told if name.startswith(within)]
        files = [name for name in told if not name.endswith(b"/")]
        nested = [
            name
            for name in told
            if name.endswith(b"/") and not self._is_left_out(name) and self._may_nest(name)
        ]
        self._take(files)
        for name in nested:
            self._edits[name[:-1]] = Record(self._marker(), NOWHERE, True)
        return any(self._edits.get(name.rstrip(b"/")) is not None for name in [*files, *nested])

    def _empty_within(self, directories: Sequence[bytes]) -> list[bytes]:
        """The empty directories in some whose files are all ignored; not those in ignored ones."""
        empty: list[bytes] = []
        level = [name[:-1] for name in directories]
        while level:
            below: list[bytes] = []
            for directory in level:
                with suppress(OSError):
                    found = self.beneath.names(directory)
                    if not found:
                        empty.append(directory)
                    elif all(name != b".git" for name, _ in found):
                        below += [directory + b"/" + name for name, is_one in found if is_one]
            ignored = self._ignored(below)
            level = [directory for directory in below if directory not in ignored]
        return empty

    def _ignored(self, directories: Sequence[bytes]) -> set[bytes]:
        if not directories:
            return set()
        repo = self.repo if self.own is None else replace(self.repo, git_dir=self.own)
        told = repo.git(
            "check-ignore", "--no-index", "-z", "--stdin",
            stdin=b"".join(name + b"\0" for name in directories), ok=(0, 1),
        )  # fmt: skip
        return set(told.split(b"\0"))

    def _marker(self) -> Entry:
        width = len(self.repo.null_oid)
        return Entry(GITLINK_MODE, Oid("1" * width))

    def _may_nest(self, name: bytes) -> bool:
        """Whether the files of a nested repository can be captured."""
        try:
            Beneath(self.top / os.fsdecode(name)).close()
        except OSError:
            self._leave_out(name, UNREADABLE)
            return False
        return True

    def _drop_nested(self, names: Iterable[bytes], *, all_of_them: bool = False) -> None:
        """Forgets the nested repositories that are no more, and what was captured of them."""
        for name in names:
            if not all_of_them and git_directory(self.top / os.fsdecode(name)) is not None:
                continue
            self._edits[name] = None
            before = self.scan_.before
            if before is None:
                continue
            root = self.prefix + name + b"/"
            for prefix, unit in before.units.items():
                if prefix.startswith(root):
                    links = set(unit.index.gitlinks())
                    for one in unit.index.names():
                        if one not in links:
                            self.scan_.changes[prefix + one] = None

    # What is ignored.

    def _settle_ignored(self) -> None:
        """Drops what became ignored; takes what is tracked although it is ignored."""
        seen = self._seen()
        if seen == self.state.seen and not self._met_ignores:
            return
        self._flush(write=True)
        self.state.seen = seen
        self.scan_.is_settled = True
        self.state.has_patterns = self._has_patterns()
        if not self.state.has_patterns:
            self.state.forced = []
            return
        words = ("ls-files", "-z", "--cached", "--ignored", *self._excluding())
        ours = self._start(*words)
        path = self._user_index()
        theirs = self._answer(self._start(*words, index=path)) if path is not None else []
        ignored = self._answer(ours)
        self.state.forced = sorted(set(theirs))
        extra = set(self._own_names(self.scanner.rules.extra))
        links = set(self.state.index.gitlinks())
        for name in set(ignored) - set(theirs) - extra:
            if name in links:
                self._drop_nested([name], all_of_them=True)
            else:
                self._gone(name)
        self._take(name for name in theirs if name not in links and name not in ignored)

    def _seen(self) -> str:
        parts = []
        for path in (self._user_index(), self.scanner.rules.excludes, self._info("exclude")):
            try:
                found = os.stat(path) if path is not None else None
            except OSError:
                found = None
            parts.append(f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}" if found else "-")
        return " ".join(parts)

    def _has_patterns(self) -> bool:
        for path in (self.scanner.rules.excludes, self._info("exclude")):
            with suppress(OSError):
                if path is not None and _has_rule(path.read_bytes()):
                    return True
        ending = b"/" + IGNORES
        return any(name.endswith(ending) or name == IGNORES for name in self.state.index.names())


class _Seeds:
    """What the repository's own index knows of its files, where that is of plain bytes."""

    def __init__(self, unit: _Unit, index: CapturedIndex, path: Path) -> None:
        self._unit = unit
        self._index = index
        self._newest = os.stat(path).st_mtime_ns // 1_000_000_000 - 1

    def known(self, names: Sequence[bytes]) -> dict[bytes, _Seed]:
        """Look and id of those whose id is that of what the file holds, if it looks like that."""
        usable = {}
        for position, name in enumerate(self._index.names()):
            stored = self._index.stored(position)
            if stored.is_trusted and stored.key[2] < self._newest and stored.key[0] < self._newest:
                usable[name] = stored
        sizes = self._sizes({stored.entry.oid for stored in usable.values()})
        found = {
            name: (stored.key, stored.entry.oid)
            for name, stored in usable.items()
            # What was converted has another size, as what is on the disk only; see `_converted`.
            if sizes.get(stored.entry.oid) == stored.key[5] and stored.entry.mode != GITLINK_MODE
        }
        for name in self._converted(names, list(found)):
            del found[name]
        return found

    def _sizes(self, oids: Iterable[Oid]) -> dict[Oid, int]:
        request = "".join(f"{oid}\n" for oid in oids).encode()
        told = self._unit.repo.git(
            "cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer",
            stdin=request, env={"GIT_NO_LAZY_FETCH": "1"},
        )  # fmt: skip
        lines = (line.split(b" ") for line in told.splitlines())
        return {Oid(os.fsdecode(line[0])): int(line[1]) for line in lines if line[1].isdigit()}

    def _converted(self, names: Sequence[bytes], found: Sequence[bytes]) -> list[bytes]:
        """Those that a program, or from another encoding, is converted: the size does not tell."""
        if not any(word in text for text in self._attributes(names) for word in _CONVERTING):
            return []
        told = self._unit.repo.git(
            "check-attr", "-z", "--stdin", *(os.fsdecode(word) for word in _CONVERTING),
            stdin=b"".join(name + b"\0" for name in found),
        ).split(b"\0")  # fmt: skip
        return list(
            {
                name
                for name, value in zip(told[0::3], told[2::3], strict=False)
                if value not in (b"unspecified", b"unset")
            }
        )

    def _attributes(self, names: Sequence[bytes]) -> Iterator[bytes]:
        top = self._unit.top
        paths = [
            top / os.fsdecode(name) for name in names if name.rpartition(b"/")[2] == ATTRIBUTES
        ]
        info = self._unit._info("attributes")
        for path in (*paths, info, self._unit.scanner.rules.attributes, Path("/etc/gitattributes")):
            with suppress(OSError):
                if path is not None:
                    yield path.read_bytes()


def _has_rule(text: bytes) -> bool:
    return any(line.strip() and not line.startswith(b"#") for line in text.splitlines())


def index_name(prefix: bytes) -> str:
    """The file of a unit's index in the place of a workspace."""
    return "index" if not prefix else f"index-{hashlib.sha256(prefix).hexdigest()[:16]}"


def git_directory(top: Path) -> Path | None:
    """The git directory of a repository whose worktree is `top`; None where it is none."""
    place = top / ".git"
    try:
        if place.is_dir():
            found = place
        else:
            word, _, told = place.read_bytes().partition(b": ")
            if word != b"gitdir":
                return None
            found = top / os.fsdecode(told.rstrip(b"\n"))
        return found if (found / "HEAD").is_file() or (found / "HEAD").is_symlink() else None
    except OSError:
        return None


def common_directory(git_dir: Path) -> Path:
    try:
        told = (git_dir / "commondir").read_text("utf-8", "surrogateescape").rstrip("\n")
    except OSError:
        return git_dir
    return git_dir / told


def write_blobs(scanner: Scanner, scan: Scan, pack: Pack) -> None:
    """Puts the contents that the repository does not have yet into `pack`.

    A file that is another by now is read again, and the scan changed to what it is then.
    """
    fresh = {
        path: found
        for path, found in scan.found.items()
        if found.hashed is not None and scan.changes.get(path) is not None
    }
    there = _existing(scanner.repo, {found.entry.oid for found in fresh.values()})
    blobs = BlobPack(pack.quarantine().path, scanner.repo.object_format)
    try:
        with Beneath(scanner.top) as beneath:
            for path in sorted(fresh):
                if fresh[path].entry.oid not in there:
                    _write_blob(scanner, scan, beneath, blobs, path)
        blobs.finish()
    finally:
        blobs.close()
    pack.take_in()


def _existing(repo: Repo, oids: Iterable[Oid]) -> set[Oid]:
    wanted = set(oids)
    if not wanted:
        return set()
    told = repo.git(
        "cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer",
        stdin="".join(f"{oid}\n" for oid in wanted).encode(), env={"GIT_NO_LAZY_FETCH": "1"},
    )  # fmt: skip
    lines = (line.split() for line in os.fsdecode(told).splitlines())
    return {Oid(line[0]) for line in lines if line[1] == "blob"}


def _write_blob(
    scanner: Scanner, scan: Scan, beneath: Beneath, blobs: BlobPack, path: bytes
) -> None:
    found = scan.found[path]
    hashed = found.hashed
    assert hashed is not None, path
    if hashed.data is not None:
        blobs.add_data(hashed.oid, hashed.data)
        hashed.data = None
        return
    try:
        opened = beneath.open_file(path)
    except OSError:  # it went since it was hashed
        amend(scan, path, None)
        return
    try:
        if not blobs.add_file(hashed.oid, opened, hashed.size):
            _write_copy(scanner, scan, blobs, path, opened)
    finally:
        os.close(opened)


def _write_copy(scanner: Scanner, scan: Scan, blobs: BlobPack, path: bytes, opened: int) -> None:
    """Of a file that is another at every look: a copy holds still."""
    with tempfile.TemporaryFile(dir=scanner.place) as copy:
        os.lseek(opened, 0, os.SEEK_SET)
        with os.fdopen(os.dup(opened), "rb") as source:
            shutil.copyfileobj(source, copy)
        copy.flush()
        hashed = scanner.hasher.file(copy.fileno())
        if hashed.data is not None:
            blobs.add_data(hashed.oid, hashed.data)
        else:
            blobs.add_file(hashed.oid, copy.fileno(), hashed.size)
    found = scan.found[path]
    entry = Entry(found.entry.mode, hashed.oid)
    amend(scan, path, Found(entry, NOWHERE, found.permissions, True, hashed))


def amend(scan: Scan, path: bytes, found: Found | None) -> None:
    """What is at `path` turned out to be another thing."""
    prefix = max((one for one in scan.state.units if path.startswith(one)), key=len)
    name, unit = path[len(prefix) :], scan.state.units[prefix]
    unit.index = unit.index.edited({name: found.record if found is not None else None})
    old = scan.before.units.get(prefix) if scan.before is not None else None
    was = old.index.find(name) if old is not None else None
    if found is not None:
        scan.found[path] = found
        scan.changes[path] = found.entry
        return
    scan.found.pop(path, None)
    scan.state.modes.pop(path, None)
    if was is not None:
        scan.changes[path] = None
    else:
        scan.changes.pop(path, None)
