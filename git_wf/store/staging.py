"""What a worktree's state becomes as a tree, and how a worktree goes back to its commit.

One scan (`git status` on the worktree's own index) tells what changed; the excluded is filtered
out; `update-index` stages the rest, and the tree is made of HEAD's and of what is staged: what
`git add -A` would store, but for these rules:

- A path that a user's glob holds back, and a new one in a built-in directory, has in the index
  what HEAD has, whatever a node staged.
- A nested repository is stored as plain files without its `.git`; a submodule stays a gitlink.
- What cannot be read, a FIFO, a socket and a name that git forbids are left out.

HEAD has to be at the commit that the tree is made for: see `worktree.reconcile_head`.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from git_wf.core.names import Oid
from git_wf.errors import GitFailed, StateUnreadable
from git_wf.store.excludes import Excludes as Excludes
from git_wf.store.files import remove_tree
from git_wf.store.index import IndexReader, NotReadable, index_size
from git_wf.store.objects import Entry, ObjectReader
from git_wf.store.packs import Pack
from git_wf.store.repo import Repo, split_nul
from git_wf.store.trees import TreeEditor

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_TRIES = 4  # scans until a worktree that others are writing to is given up
_GITLINK = "160000"
_MISSING = "000000"
# What a user's configuration would add, hide or refuse. A split index is joined: a copy of it
# must not write shared parts beside the original.
_OPTIONS = (
    "-c", "core.safecrlf=false",
    "-c", "core.splitIndex=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
_BIG = 512 << 10  # bytes of an index, of some 5,000 files
_NOTED_EVERY = 16  # scans of a small worktree
_SPLIT = (
    "-c", "core.splitIndex=true",
    # Reading what changed since is cheap, as long as it is little; old shared parts are not kept
    # for weeks.
    "-c", "splitIndex.maxPercentChange=5",
    "-c", "splitIndex.sharedIndexExpire=1.hour.ago",
)  # fmt: skip
# Blobs that git need not convert are streamed into one pack, which is no place for them to stay.
_INTO_ONE_PACK = ("-c", "core.bigFileThreshold=0", "-c", "core.fsync=none")
# A pack of ours takes little content over as it is, and compresses it faster than git.
_UNCOMPRESSED = ("-c", "pack.compression=0")
_SMALL = 1 << 20  # bytes
_STATUS = (
    "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames",
    "--ignore-submodules=dirty", "--branch", "--no-ahead-behind", "--no-show-stash",
)  # fmt: skip
# Only its warning tells of a directory that git could not look into.
_UNREADABLE_DIRECTORY = re.compile(rb"^warning: could not open directory '(.*)': ", re.MULTILINE)
_IGNORED_PATH = re.compile(rb"^Ignoring path (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """A path that differs between HEAD, index and worktree, as `git status` tells it.

    `staged` and `unstaged` are its letters (`M A D T U`, `.` for no difference), both `?` for an
    untracked path. Modes are six octal digits, 000000 where there is nothing. The path of a
    nested repository ends with a slash.
    """

    path: str
    staged: str = "?"
    unstaged: str = "?"
    head_mode: str = _MISSING
    index_mode: str = _MISSING
    work_mode: str = _MISSING
    head_oid: str = ""

    @property
    def is_untracked(self) -> bool:
        return self.staged == "?"

    @property
    def is_nested_repository(self) -> bool:
        return self.is_untracked and self.path.endswith("/")

    @property
    def is_unmerged(self) -> bool:
        return self.staged == "U"

    @property
    def is_gitlink(self) -> bool:
        return _GITLINK in (self.head_mode, self.index_mode)

    @property
    def entry_path(self) -> str:
        """The path, with a slash at its end where it is a directory."""
        return f"{self.path}/" if self.is_gitlink else self.path


@dataclass(frozen=True)
class Staging:
    """A tree, and what has to be said about it. Lists are sorted, directories end with a slash.

    `changed`: paths that differ from HEAD in the tree. `held_back`: tracked paths whose change a
    user's glob keeps out. `left_out_builtin`: the topmost built-in directories with new files in
    them, told when first met. `nested`: repositories stored as plain files. `unreadable`: what
    could not be stored. `head` and `branch` are what HEAD was (`branch` None where it is
    detached). `is_complete`: whether the pack that it was made for has all that is new in it.
    """

    tree: Oid
    changed: list[str]
    held_back: list[str]
    left_out_builtin: list[str]
    nested: list[str]
    unreadable: list[str]
    head: Oid | None
    branch: str | None
    is_complete: bool = False


@dataclass
class _Scan:
    changes: list[Change] = field(default_factory=list)
    head: Oid | None = None
    branch: str | None = None
    unreadable: list[str] = field(default_factory=list)


def changes(repo: Repo) -> list[Change]:
    """What differs from HEAD in a worktree, without touching its index, broken or not."""
    try:
        return _scan(repo, (), {"GIT_OPTIONAL_LOCKS": "0"}).changes
    except GitFailed:
        with _private_index(repo) as place:
            return _scan_healed(_Means(repo, Excludes(builtin=False), place)).changes


def nested_repositories(repo: Repo) -> list[str]:
    """The untracked repositories in a worktree, deeper ones too; each ends with a slash."""
    found = [change.path for change in changes(repo) if change.is_nested_repository]
    return _files_within(repo, found, ())[1] if found else []


def stage(
    repo: Repo, excludes: Excludes, env: Mapping[str, str], since: Oid | None = None
) -> Staging:
    """Stages all changes but the excluded into the worktree's own index, and writes the tree.

    New objects go where `env` says. With `since`, the last recorded commit, repositories that a
    node committed as bare gitlinks after it are stored as plain files too. An index that is
    missing or broken is made again from HEAD, as is one that names objects of a cycle whose
    quarantine was thrown away. Files that vanish meanwhile are no error. Raises `GitFailed`.
    """
    return _stage(_Means(repo, excludes, env), since)


class _Means:
    """How a worktree is scanned and staged: here by git alone, one process a step."""

    def __init__(self, repo: Repo, excludes: Excludes, env: Mapping[str, str]) -> None:
        self.repo = repo
        self.excludes = excludes
        self.env = env  # of calls that read

    def options(self) -> Sequence[str]:
        """Options of git for calls that use the index."""
        return ()

    def writing(self) -> Mapping[str, str]:
        """The environment of calls that may write objects."""
        return self.env

    def renewal(self) -> Sequence[str]:
        """What makes `update-index` write the index in a better form."""
        return ()

    def tree(self, scan: _Scan, plan: _Plan) -> tuple[Oid, bool]:
        """The tree of what is staged; and `Staging.is_complete`. Raises `GitFailed`."""
        return Oid(os.fsdecode(self.repo.git("write-tree", env=self.writing())).strip()), False


def _stage(means: _Means, since: Oid | None) -> Staging:
    repo, excludes = means.repo, means.excludes
    healed = careful = False
    for tries_left in reversed(range(_TRIES)):
        scan = _scan_healed(means)
        plan = _Planner(repo, excludes, means.env, scan, careful).plan(since)
        try:
            refused = _update_index(repo, plan, means.writing, means.options(), means.renewal())
        except GitFailed:
            if tries_left == 0 or _index_lock(repo).exists():
                raise
            careful = True
            continue
        try:
            tree, is_complete = means.tree(scan, plan)
        except GitFailed:
            if healed or tries_left == 0:
                raise
            healed = True
            _forget_lost_objects(repo, means.writing())
            continue
        return _staging(excludes, scan, plan, refused, tree, is_complete)
    raise AssertionError("the last try returns or raises")


class Stager:
    """Stages one worktree again and again, by one process or two: a scan, and what changed.

    What is new in a tree is put into the pack that it is made for, also what the repository has
    already: no ref may name that yet.
    """

    def __init__(self, repo: Repo, excludes: Excludes, reader: ObjectReader) -> None:
        self._repo = repo
        self._excludes = excludes
        self._reader = reader
        self._editor = TreeEditor(reader)
        self._index = IndexReader(repo.git_dir, repo.object_format)
        self._index.is_split = any(repo.git_dir.glob("sharedindex.*"))
        self._may_split: bool | None = None
        self._options: tuple[str, ...] = ()
        self._scans = 0

    def stage(self, pack: Pack, since: Oid | None = None) -> Staging:
        """As `stage`; new objects go into `pack`."""
        is_big = self._index.is_split or index_size(self._repo.git_dir) >= _BIG
        self._options = (*self._untracked_options, *self._split_options()) if is_big else ()
        # To write down what a scan found takes longer than to find it again in a small worktree.
        is_noted = is_big or self._scans % _NOTED_EVERY == 0
        self._scans += 1
        return _stage(_Quick(self, pack, {} if is_noted else {"GIT_OPTIONAL_LOCKS": "0"}), since)

    @cached_property
    def _untracked_options(self) -> tuple[str, ...]:
        """What makes git remember which directories have no new files: by their times."""
        assert self._repo.work_tree is not None, self._repo
        if not tells_changes(self._repo.work_tree.parent):
            return ()
        # Without the second the first is never used for a scan of all files.
        return ("-c", "core.untrackedCache=true", "-c", "status.showUntrackedFiles=all")

    def _split_options(self) -> tuple[str, ...]:
        """A big index is split, so that it is not written as a whole, unless the user forbids it.

        Programs that read an index by themselves often do not know a split one, so that a small
        one stays as it is.
        """
        if self._may_split is None:
            asked = self._repo.line("config", "--type=bool", "--get", "core.splitIndex", ok=(0, 1))
            self._may_split = asked != "false"
        return _SPLIT if self._may_split else ()

    def options(self) -> Sequence[str]:
        return self._options

    def renewal(self) -> Sequence[str]:
        """A worn split index gets a new shared part: reading what changed has to stay cheap."""
        return ("--split-index",) if self._index.is_worn and self._may_split else ()

    def read_tree(self, pack: Pack, scan: _Scan, plan: _Plan) -> Oid | None:
        """The tree of what is staged; None where git has to tell it."""
        staged = {one.path: one for one in scan.changes if one.staged not in "?."}
        touched = {*staged, *plan.entries, *plan.removed, *plan.added}
        if scan.head is None:
            return None
        before = self._reader.read_commit(scan.head).tree
        if not touched:
            return before
        try:
            found = self._index.entries(os.fsencode(path) for path in touched)
        except NotReadable:
            return None
        pack.take_in()
        in_head = {Entry(one.head_mode, Oid(one.head_oid)) for one in scan.changes}
        fresh = (entry for entry in found.values() if entry and entry not in in_head)
        pack.add_existing(self._reader, (one.oid for one in fresh if one.kind != "commit"))
        return self._editor.edit(pack, before, found)


class _Quick(_Means):
    """By what a `Stager` remembers."""

    def __init__(self, stager: Stager, pack: Pack, env: Mapping[str, str]) -> None:
        super().__init__(stager._repo, stager._excludes, env)
        self._stager = stager
        self._pack = pack

    def options(self) -> Sequence[str]:
        return self._stager.options()

    def writing(self) -> Mapping[str, str]:
        return self._pack.quarantine().env

    def renewal(self) -> Sequence[str]:
        return self._stager.renewal()

    def tree(self, scan: _Scan, plan: _Plan) -> tuple[Oid, bool]:
        try:
            tree = self._stager.read_tree(self._pack, scan, plan)
        except StateUnreadable as err:
            raise GitFailed(["git", "cat-file"], 128, err.message) from err
        if tree is not None:
            return tree, True
        told = super().tree(scan, plan)
        self._pack.take_in()
        return told


def _scratch(prefix: str = "git-wf-", within: Path | None = None) -> TemporaryDirectory[str]:
    """Imported when it is needed: readers of a run need none, and wait for what is imported."""
    from tempfile import TemporaryDirectory

    return TemporaryDirectory(prefix=prefix, dir=within)


def tells_changes(directory: Path) -> bool:
    """Whether the time of a directory tells when something in it is made, renamed or removed."""
    try:
        with _scratch(prefix=".git-wf-", within=directory) as made:
            file, other = os.path.join(made, "file"), os.path.join(made, "other")
            changes: tuple[Callable[[], object], ...] = (
                lambda: os.close(os.open(file, os.O_CREAT | os.O_WRONLY)),
                lambda: os.rename(file, other),
                lambda: os.unlink(other),
                lambda: os.mkdir(other),
                lambda: os.rmdir(other),
            )
            for change in changes:
                os.utime(made, (1, 1))
                change()
                if os.stat(made).st_mtime == 1:
                    return False
    except OSError:
        return False
    return True


def stage_apart(repo: Repo, excludes: Excludes, env: Mapping[str, str]) -> Staging:
    """The same as `stage`, but the worktree's own index stays as it is."""
    with _private_index(repo) as place:
        return stage(repo, excludes, {**env, **place})


def snapshot_tree(repo: Repo, env: Mapping[str, str]) -> Oid:
    """The tree of a worktree's whole state but the ignored files; its own index stays as it is."""
    return stage_apart(repo, Excludes(builtin=False), env).tree


@contextmanager
def _private_index(repo: Repo) -> Iterator[dict[str, str]]:
    """The environment of calls that use a copy of the index."""
    with _scratch() as directory:
        index = Path(directory) / "index"
        with suppress(FileNotFoundError):
            # With its time: git takes what was written at the same moment as not yet seen.
            shutil.copy2(repo.git_dir / "index", index)
        yield {"GIT_INDEX_FILE": os.fspath(index)}


def _staging(
    excludes: Excludes,
    scan: _Scan,
    plan: _Plan,
    refused: Iterable[str],
    tree: Oid,
    is_complete: bool,
) -> Staging:
    excludes.met |= {path.rstrip("/").rsplit("/", 1)[-1] for path in plan.left_out}
    unreadable = {*scan.unreadable, *plan.unreadable, *refused}
    return Staging(
        tree=tree,
        changed=sorted(plan.changed - unreadable),
        held_back=sorted(plan.held_back),
        left_out_builtin=sorted(plan.left_out),
        nested=sorted(plan.nested),
        unreadable=sorted(unreadable),
        head=scan.head,
        branch=scan.branch,
        is_complete=is_complete,
    )


# The scan.


def _scan(repo: Repo, options: Sequence[str], env: Mapping[str, str]) -> _Scan:
    done = repo.run(*_OPTIONS, *options, *_STATUS, env=env)
    scan = _Scan(unreadable=[os.fsdecode(f) for f in _UNREADABLE_DIRECTORY.findall(done.stderr)])
    for entry in split_nul(done.stdout):
        kind = entry[0]
        if kind == "#":
            _read_header(entry, scan)
        elif kind == "1":
            _, xy, _, head, index, work, oid, _, path = entry.split(" ", 8)
            scan.changes.append(Change(path, xy[0], xy[1], head, index, work, oid))
        elif kind == "u":
            _, _, _, _, index, _, work, _, _, _, path = entry.split(" ", 10)
            scan.changes.append(Change(path, "U", "U", _MISSING, index, work))
        else:
            scan.changes.append(Change(entry[2:]))
    return scan


def _scan_healed(means: _Means) -> _Scan:
    """A scan of a worktree whose index may be missing or broken: then it is made from HEAD.

    Without one, files that are tracked and ignored would be gone from the next tree.
    """
    repo, env = means.repo, means.env
    index = Path(env.get("GIT_INDEX_FILE") or repo.git_dir / "index")
    if not index.exists():
        _make_index(repo, index, env)
    options = [*means.options(), *means.excludes.scan_options(repo)]
    try:
        return _scan(repo, options, env)
    except GitFailed:
        if repo.run("ls-files", "--unmerged", ok=(0, 1, 128), env=env).returncode == 0:
            raise
    _make_index(repo, index, env)
    return _scan(repo, options, env)


def _make_index(repo: Repo, index: Path, env: Mapping[str, str]) -> None:
    remove_tree(index)
    if repo.resolve("HEAD") is not None:
        repo.git(*_OPTIONS, "read-tree", "HEAD", env=env)


def _read_header(entry: str, scan: _Scan) -> None:
    if entry.startswith("# branch.oid ") and not entry.endswith(" (initial)"):
        scan.head = Oid(entry.removeprefix("# branch.oid "))
    elif entry.startswith("# branch.head ") and not entry.endswith(" (detached)"):
        scan.branch = "refs/heads/" + entry.removeprefix("# branch.head ")


# The plan.


@dataclass
class _Plan:
    """What goes into the index: first the entries (mode, oid, path), then paths as they are."""

    entries: dict[str, tuple[str, str]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    held_back: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    nested: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)


class _Planner:
    """Sorts the changes of one scan. A careful one looks at every file before git does."""

    def __init__(
        self, repo: Repo, excludes: Excludes, env: Mapping[str, str], scan: _Scan, careful: bool
    ) -> None:
        assert repo.work_tree is not None, repo
        self._repo = repo
        self._top = repo.work_tree
        self._excludes = excludes
        self._env = env
        self._scan = scan
        self._careful = careful
        self._plan = _Plan()
        self._to_unpack: list[str] = []
        self._restored_gitlinks = {
            change.path
            for change in scan.changes
            if change.staged == "D" and change.head_mode == _GITLINK
        }
        self._submodules: frozenset[str] | None = None
        self._directories: dict[str, bool] = {"": True}

    def plan(self, since: Oid | None) -> _Plan:
        for change in self._scan.changes:
            if change.is_untracked:
                self._plan_untracked(change)
            elif self._excludes.holds(change.entry_path):
                self._hold_back(change)
            elif change.staged == "A" and self._leaves_out(change.entry_path):
                self._put_back(change)
            else:
                self._plan_tracked(change)
        if since is not None and self._scan.head not in (None, since):
            self._plan_committed_gitlinks(since)
        for path in self._unpacked(self._to_unpack):
            self._add(path)
        # Adding a path replaces what the index has below it, and git refuses to name what is
        # behind a symlink.
        added = set(self._plan.added)
        self._plan.removed = [
            path for path in self._plan.removed if not any(p in added for p in _parents(path))
        ]
        return self._plan

    def _leaves_out(self, path: str) -> bool:
        directory = self._excludes.builtin_directory(path)
        if directory is not None:
            self._plan.left_out.add(directory)
        return directory is not None

    def _plan_untracked(self, change: Change) -> None:
        if self._excludes.holds(change.path) or self._leaves_out(change.path):
            return
        if not change.is_nested_repository:
            self._add(change.path)
        elif self._is_submodule(change.path.rstrip("/")):
            self._add(change.path.rstrip("/"), is_gitlink=True)
        else:
            self._unpack(change.path)

    def _hold_back(self, change: Change) -> None:
        if change.is_unmerged or change.head_mode != _MISSING:
            self._plan.held_back.add(change.path)
        if change.staged != ".":
            self._put_back(change)

    def _put_back(self, change: Change) -> None:
        """The index gets what HEAD has."""
        if change.is_unmerged:
            self._plan.entries[change.path] = _head_entry(self._repo, change.path)
        else:
            self._plan.entries[change.path] = (change.head_mode, change.head_oid)

    def _plan_tracked(self, change: Change) -> None:
        path = change.path
        if change.staged != ".":
            self._plan.changed.add(path)
        if self._is_nested(change):
            self._remove_entry(path)
            self._unpack(f"{path}/")
        elif change.is_unmerged and change.is_gitlink and not self._has_commit(path):
            self._put_back(change)
        elif change.unstaged == "D":
            self._remove(path)
        elif change.unstaged != ".":
            self._add(path, is_gitlink=change.index_mode == _GITLINK)

    def _is_nested(self, change: Change) -> bool:
        """Whether a repository came to a tracked path that is none of our submodules."""
        if change.unstaged == "T":
            return change.work_mode == _GITLINK
        is_new = change.staged == "A" and change.index_mode == _GITLINK
        return is_new and change.unstaged in ".M" and not self._is_submodule(change.path)

    def _add(self, path: str, *, is_gitlink: bool = False) -> None:
        """Stages a path as it is; where it is gone, `update-index` removes it."""
        kind = _kind(self._top / path) if self._careful else "file"
        if kind == "unreadable":
            self._plan.unreadable.add(path)
        elif kind == "file" or (kind == "directory" and is_gitlink):
            self._plan.changed.add(path)
            self._plan.added.append(path)
        else:
            self._remove(path)

    def _remove(self, path: str) -> None:
        self._plan.changed.add(path)
        if self._careful or not self._is_below_directories(path):
            self._remove_entry(path)
        else:
            self._plan.removed.append(path)

    def _remove_entry(self, path: str) -> None:
        self._plan.changed.add(path)
        self._plan.entries[path] = (_MISSING, self._repo.null_oid)

    def _is_below_directories(self, path: str) -> bool:
        """Whether no symlink is on the way to `path`."""
        for parent in reversed(_parents(path)):
            if parent not in self._directories:
                self._directories[parent] = not os.path.islink(self._top / parent)
            if not self._directories[parent]:
                return False
        return True

    # Nested repositories.

    def _is_submodule(self, path: str) -> bool:
        """Whether a repository in the worktree is a submodule of ours, and has a commit."""
        is_known = path in self._restored_gitlinks or path in self._listed_submodules()
        return is_known and self._has_commit(path)

    def _has_commit(self, path: str) -> bool:
        inner = replace(self._repo, git_dir=self._top / path / ".git", work_tree=None)
        asked = inner.run(
            "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128), cwd=self._top
        )
        return asked.returncode == 0

    def _listed_submodules(self) -> frozenset[str]:
        if self._submodules is None:
            self._submodules = _listed_submodules(self._repo)
        return self._submodules

    def _unpack(self, path: str) -> None:
        self._to_unpack.append(path)

    def _plan_committed_gitlinks(self, since: Oid) -> None:
        """What a node committed as a bare gitlink would lose its contents."""
        for path in _committed_gitlinks(self._repo, since, self._scan.head or since):
            nested = f"{path}/"
            is_known = path in self._plan.entries or path in self._listed_submodules()
            is_there = os.path.lexists(self._top / path / ".git")
            if is_there and not is_known and not self._excludes.holds(nested):
                self._plan.added = [one for one in self._plan.added if one != path]
                self._remove_entry(path)
                self._unpack(nested)

    def _unpacked(self, nested: Sequence[str]) -> list[str]:
        """The files of nested repositories and those in them, ignored and excluded ones apart."""
        if not nested:
            return []
        files, repositories = _files_within(
            self._repo, nested, self._excludes.scan_options(self._repo)
        )
        kept = []
        for path in files:
            if not self._excludes.holds(path) and not self._leaves_out(path):
                kept.append(path)
        self._plan.nested |= {
            path
            for path in repositories
            if not self._excludes.holds(path) and not self._excludes.builtin_directory(path)
        }
        return kept


def _parents(path: str) -> list[str]:
    """The directories that a path is in, the nearest first, without the top."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def _kind(path: Path) -> str:
    """`file` (a symlink too), `directory`, `missing`, `unreadable`, or `other`."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            os.close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "unreadable"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else "other"


def _head_entry(repo: Repo, path: str) -> tuple[str, str]:
    """Mode and object of a path in HEAD, where the scan did not tell them."""
    for entry in split_nul(repo.git("ls-tree", "-r", "-z", "--full-tree", "HEAD", ok=(0, 128))):
        about, name = entry.split("\t", 1)
        if name == path:
            return about.split(" ")[0], about.split(" ")[2]
    return _MISSING, repo.null_oid


def _listed_submodules(repo: Repo) -> frozenset[str]:
    """The paths in `.gitmodules`."""
    assert repo.work_tree is not None, repo
    named = repo.run(
        "config", "--null", "--file", os.fspath(repo.work_tree / ".gitmodules"),
        "--get-regexp", r"^submodule\..*\.path$", ok=(0, 1, 3, 128),
    ).stdout  # fmt: skip
    return frozenset(entry.partition("\n")[2] for entry in split_nul(named))


def _committed_gitlinks(repo: Repo, since: Oid, head: Oid) -> list[str]:
    """The gitlinks that `head` has and `since` has not."""
    told = list(split_nul(repo.git("diff-tree", "-r", "-z", "--raw", "--no-renames", since, head)))
    return [
        path
        for about, path in zip(told[::2], told[1::2], strict=True)
        if about.split(" ")[1] == _GITLINK and about.split(" ")[0] != f":{_GITLINK}"
    ]


def _files_within(
    repo: Repo, nested: Sequence[str], options: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Files in nested repositories that no rule ignores; and the repositories, deeper ones too.

    git does not look into a repository, unless the index has a path in it. So it is asked with an
    index that has just that.
    """
    files: list[str] = []
    repositories: list[str] = []
    with _scratch() as directory:
        place = {"GIT_INDEX_FILE": os.path.join(directory, "index"), "GIT_LITERAL_PATHSPECS": "1"}
        mark = f".git-wf-{os.urandom(8).hex()}"
        oid = "1" * len(repo.null_oid)
        pending = list(nested)
        while pending:
            marks = "".join(f"100644 {oid}\t{path}{mark}\0" for path in pending)
            repo.git("update-index", "-z", "--index-info", stdin=os.fsencode(marks), env=place)
            listed = repo.git(
                *_OPTIONS, *options, "ls-files", "-z", "--others", "--exclude-standard", "--",
                *pending, env=place,
            )  # fmt: skip
            repositories += pending
            found = list(split_nul(listed))
            files += [path for path in found if not path.endswith("/")]
            pending = [path for path in found if path.endswith("/")]
    return files, repositories


# The index.


def remove_index_lock(repo: Repo) -> None:
    """For the holder of a run's lock: no other process of ours is at work in its worktree."""
    _index_lock(repo).unlink(missing_ok=True)


def _index_lock(repo: Repo) -> Path:
    return repo.git_dir / "index.lock"


def _update_index(
    repo: Repo,
    plan: _Plan,
    writing: Callable[[], Mapping[str, str]],
    options: Sequence[str] = (),
    renewal: Sequence[str] = (),
) -> list[str]:
    """Stages what is planned; returns the names that git forbids.

    `writing` gives the environment of calls that write objects; it is not asked for nothing.
    """
    if plan.entries:
        lines = "".join(f"{mode} {oid}\t{path}\0" for path, (mode, oid) in plan.entries.items())
        repo.git(
            *_OPTIONS, *options, "update-index", "-z", "--index-info",
            stdin=os.fsencode(lines), env=writing(),
        )  # fmt: skip
    paths = [*plan.removed, *plan.added]
    if not paths:
        return []
    assert repo.work_tree is not None, repo
    compression = _UNCOMPRESSED if _are_small(repo.work_tree, plan.added) else ()
    done = repo.run(
        *_OPTIONS, *options, *_INTO_ONE_PACK, *compression,
        "update-index", *renewal, "-z", "--add", "--remove", "--replace", "--stdin",
        stdin=b"".join(os.fsencode(path) + b"\0" for path in paths), env=writing(),
    )  # fmt: skip
    return [os.fsdecode(path) for path in _IGNORED_PATH.findall(done.stderr)]


def _are_small(top: Path, paths: Iterable[str]) -> bool:
    """Whether all of the files together are."""
    left = _SMALL
    for path in paths:
        with suppress(OSError):
            left -= os.lstat(top / path).st_size
        if left < 0:
            return False
    return True


def _forget_lost_objects(repo: Repo, env: Mapping[str, str]) -> None:
    """Makes the index again from HEAD, and stages anew what a node had staged by hand.

    What is ignored and was added by force is in the index only; the next scan would not find it.
    """
    staged = [
        change
        for change in _scan(repo, (), env).changes
        if not change.is_untracked and not change.is_unmerged and change.staged != "."
    ]
    if repo.resolve("HEAD") is None:
        repo.git(*_OPTIONS, "read-tree", "--empty", env=env)
    else:
        repo.git(*_OPTIONS, "read-tree", "HEAD", env=env)
    plan = _Plan()
    for change in staged:
        assert repo.work_tree is not None, repo
        kind = _kind(repo.work_tree / change.path)
        if change.staged == "D":
            plan.entries[change.path] = (_MISSING, repo.null_oid)
        elif kind == "file" or (kind == "directory" and change.index_mode == _GITLINK):
            plan.added.append(change.path)
    _update_index(repo, plan, lambda: env)


# Back to HEAD.


def restore_tracked(repo: Repo, excludes: Excludes) -> list[str]:
    """Makes worktree and index what HEAD is, but for ignored and excluded files, which stay.

    The state before has to be kept: see `snapshot_tree`. What that does not store stays too: the
    `.git` of a nested repository, a submodule that HEAD has not. Where a directory took the place
    of a file, or a symlink that of a directory, even ignored files in it give way. Returns the
    paths that could not be restored.
    """
    assert repo.work_tree is not None, repo
    top = repo.work_tree
    sorted_out = _Restorer(repo, excludes)
    for change in _scan_healed(_Means(repo, excludes, {})).changes:
        sorted_out.sort(change)
    repo.git(*_OPTIONS, "read-tree", "--reset", "HEAD")
    stuck = list(sorted_out.stuck)
    for path in sorted_out.files_to_remove():
        if not _remove_file(top, path):
            stuck.append(path)
    # Attributes first: they say how the others are written.
    attributes = [p for p in sorted_out.tracked if p.endswith(".gitattributes")]
    for paths in (attributes, sorted_out.tracked):
        if paths:
            repo.git(
                *_OPTIONS, "checkout-index", "-u", "-f", "-z", "--stdin",
                stdin=b"".join(os.fsencode(path) + b"\0" for path in paths),
            )  # fmt: skip
    for path, oid in sorted_out.submodules:
        if not _restore_submodule(repo, top / path, oid):
            stuck.append(path)
    return sorted(stuck)


class _Restorer:
    """Sorts the changes of a worktree by what brings them back to HEAD."""

    def __init__(self, repo: Repo, excludes: Excludes) -> None:
        self._repo = repo
        self._excludes = excludes
        self._files: list[str] = []
        self._nested: list[str] = []
        self.tracked: list[str] = []
        self.submodules: list[tuple[str, str]] = []
        self.stuck: list[str] = []

    def sort(self, change: Change) -> None:
        path = change.entry_path
        if self._excludes.holds(path):
            return
        mode, oid = change.head_mode, change.head_oid
        if change.is_unmerged:
            mode, oid = _head_entry(self._repo, change.path)
        if mode == _MISSING:
            self._sort_new(path)
        elif mode == _GITLINK:
            self.submodules.append((change.path, oid))
        else:
            self.tracked.append(change.path)

    def _sort_new(self, path: str) -> None:
        if self._excludes.builtin_directory(path):
            return
        if not path.endswith("/"):
            self._files.append(path)
        elif path.rstrip("/") in (one for one, _ in self.submodules):
            return
        elif path.rstrip("/") in _listed_submodules(self._repo):
            self.stuck.append(path.rstrip("/"))
        else:
            self._nested.append(path)

    def files_to_remove(self) -> list[str]:
        if not self._nested:
            return self._files
        options = self._excludes.scan_options(self._repo)
        within, _ = _files_within(self._repo, self._nested, options)
        return self._files + [
            path
            for path in within
            if not self._excludes.holds(path) and not self._excludes.builtin_directory(path)
        ]


def _remove_file(top: Path, path: str) -> bool:
    """Removes a file, and the directories that it leaves empty. False where it stays."""
    try:
        os.unlink(top / path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return False
    for parent in _parents(path):
        try:
            os.rmdir(top / parent)
        except OSError:
            break
    return True


def _restore_submodule(repo: Repo, path: Path, oid: str) -> bool:
    """Puts a submodule on a commit, where nothing of its own stands against it."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    path.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(path / ".git"):
        return True
    inner = Repo(path / ".git", path / ".git", path, repo.object_format, repo.env)
    done = inner.run(
        *_OPTIONS, "checkout", "--quiet", "--detach", oid, ok=tuple(range(256)), cwd=path
    )
    return done.returncode == 0
