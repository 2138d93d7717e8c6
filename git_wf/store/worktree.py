"""The worktrees that runs work in, and where their HEAD is.

A slot is a linked worktree `<state directory of the repository>/trees/<n>` with an OS lock
`trees/<n>.lock` beside it, held while a run lives. It is `git worktree lock`ed as well, with the
run's id as reason, until the run gives it back: so what a killed run left in it is that run's, and
no other run takes it. A slot that was given back clean carries a mark in its git directory; only
such a one is ever reset.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from git_wf.core.names import Oid
from git_wf.errors import GitFailed, StateUnreadable
from git_wf.store.files import Lock, is_locked, make_directory, remove_tree, write_atomic
from git_wf.store.objects import ObjectReader
from git_wf.store.repo import Repo
from git_wf.store.staging import remove_index_lock

_REASON = "git-wf run "
# One that is being made, reset or removed: whatever is in it is nobody's.
_UNREADY = "git-wf not ready for run "
_LOCKED = "locked"  # in a worktree's git directory: git's own name, with the reason in it
_COMMON = b"../..\n"  # what `commondir` says, from a linked worktree's git directory
_POOLED = Path("git-wf") / "pooled"  # the mark, below a worktree's git directory
_OPTIONS = ("-c", "submodule.recurse=false", "-c", "worktree.useRelativePaths=false")
# What an operation that a node left unfinished keeps in a git directory, and `reset` leaves.
_UNFINISHED = (
    "rebase-merge", "rebase-apply", "sequencer", "BISECT_START", "BISECT_LOG", "BISECT_NAMES",
    "BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "BISECT_FIRST_PARENT",
)  # fmt: skip
# In `ls-files -s -v`: an entry that is skip-worktree or assumed unchanged, a submodule's path.
_FLAGGED = re.compile(rb"(?:^|\0)[a-zS] ")
_GITLINK = re.compile(rb"(?:^|\0)\S 160000 [0-9a-f]+ \d\t([^\0]+)")


@dataclass(frozen=True)
class Worktree:
    """A worktree as `git worktree list` tells it. `branch` is a full ref name."""

    path: Path
    head: Oid | None
    branch: str | None
    is_locked: bool
    is_prunable: bool
    is_ours: bool  # made for a run


@dataclass(frozen=True)
class Registration:
    """What a repository keeps of a linked worktree. `lock_reason` is None where it is unlocked."""

    path: Path
    git_dir: Path
    lock_reason: str | None

    @property
    def is_pooled(self) -> bool:
        """Whether its run gave it back, with nothing in it that anybody needs."""
        return self.lock_reason is None and (self.git_dir / _POOLED).exists()


@dataclass(frozen=True)
class Slot:
    """A worktree that is ours: its OS lock is held until it is given back, kept or removed."""

    path: Path
    git_dir: Path
    repo: Repo  # as seen from this worktree
    lock: Lock


# Which worktrees there are.


def list_worktrees(repo: Repo, state_dir: Path | None = None) -> list[Worktree]:
    """The main worktree first. Those below the `trees` of `state_dir` are ours."""
    told = os.fsdecode(_listed(repo))
    trees = os.path.join(os.path.realpath(state_dir / "trees"), "") if state_dir else None
    found = []
    for record in told.split("\0\0"):
        fields = dict(_field(line) for line in record.split("\0") if line)
        if "worktree" not in fields:
            continue
        path = Path(fields["worktree"])
        found.append(
            Worktree(
                path=path,
                head=_born(fields.get("HEAD")),
                branch=fields.get("branch"),
                is_locked="locked" in fields,
                is_prunable="prunable" in fields,
                is_ours=trees is not None and os.path.realpath(path).startswith(trees),
            )
        )
    return found


def _listed(repo: Repo) -> bytes:
    """A worktree that a killed process had only begun to register makes git list none at all."""
    words = ("worktree", "list", "--porcelain", "-z")
    try:
        return repo.git(*words)
    except GitFailed:
        remove_unready(repo, "")
        return repo.git(*words)


def _born(head: str | None) -> Oid | None:
    """None where HEAD is on a branch that is not there: git tells of zeros then."""
    return Oid(head) if head and head.strip("0") else None


def _field(line: str) -> tuple[str, str]:
    key, _, value = line.partition(" ")
    return key, value


def find_worktree(repo: Repo, branch: str, state_dir: Path | None = None) -> list[Worktree]:
    """The worktrees that have a branch (a full ref name) checked out."""
    return [one for one in list_worktrees(repo, state_dir) if one.branch == branch]


def registrations(repo: Repo) -> list[Registration]:
    """All linked worktrees that the repository knows, vanished ones too."""
    return [found for one in _git_dirs(repo) if (found := _registration(one)) is not None]


def _git_dirs(repo: Repo) -> list[Path]:
    root = repo.common_dir / "worktrees"
    try:
        return [root / name for name in sorted(os.listdir(root))]
    except OSError:
        return []


def _registration(git_dir: Path) -> Registration | None:
    try:
        named = os.fsdecode((git_dir / "gitdir").read_bytes()).rstrip("\n")
    except OSError:
        return None
    return Registration((git_dir / named).parent, git_dir, _lock_reason(git_dir))


def _lock_reason(git_dir: Path) -> str | None:
    try:
        return (git_dir / _LOCKED).read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _registration_of(repo: Repo, path: Path) -> Registration | None:
    real = os.path.realpath(path)
    return next((one for one in registrations(repo) if os.path.realpath(one.path) == real), None)


def git_dir_of(repo: Repo, path: Path) -> Path | None:
    """The git directory of the worktree at `path`, even where its `.git` is gone."""
    found = _registration_of(repo, path)
    return found.git_dir if found else None


# Taking a slot, and letting it go.


def take_slot(repo: Repo, state_dir: Path, base: Oid, run: str) -> Slot:
    """A worktree for a run, its HEAD detached at `base`, nothing in it but `base`'s files.

    One that was given back is used again before a new one is made. Raises `GitFailed`, `OSError`.
    """
    trees = make_directory(state_dir / "trees")
    remove_unready(repo, run)
    for number in chain(_pooled_numbers(repo, trees), count(1)):
        lock = Lock(trees / f"{number}.lock", f"run {run}")
        if not lock.acquire():
            continue
        try:
            slot = _slot_at(repo, trees / str(number), base, run, lock)
        except BaseException:
            lock.release()
            raise
        if slot is not None:
            return slot
        lock.release()
    raise AssertionError("numbers do not end")


def _pooled_numbers(repo: Repo, trees: Path) -> list[int]:
    real = os.path.realpath(trees)
    return sorted(
        int(one.path.name)
        for one in registrations(repo)
        if one.is_pooled and one.path.name.isdecimal() and os.path.realpath(one.path.parent) == real
    )


def _slot_at(repo: Repo, path: Path, base: Oid, run: str, lock: Lock) -> Slot | None:
    """The slot at `path`; None where something is there that is not ours to remove."""
    known = _registration_of(repo, path)
    if known is not None and known.is_pooled and path.is_dir() and not path.is_symlink():
        if (path / ".git").is_dir():
            return None
        with suppress(GitFailed, OSError):
            return _reset_slot(_opened(repo, path, known.git_dir, lock), base, run)
        remove_worktree(repo, path)
    elif known is not None:
        if os.path.lexists(path):
            return None
        remove_worktree(repo, path)
    elif os.path.lexists(path):
        try:
            path.rmdir()
        except OSError:
            return None
    return _add_slot(repo, path, base, run, lock)


def _add_slot(repo: Repo, path: Path, base: Oid, run: str, lock: Lock) -> Slot:
    common = _common(repo)
    common.git(
        *_OPTIONS, "worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock",
        "--reason", f"{_UNREADY}{run}", os.fspath(path), base,
    )  # fmt: skip
    try:
        git_dir = git_dir_of(repo, path)
        assert git_dir is not None, path
        slot = _opened(repo, path, git_dir, lock)
        _make_full(slot)
        _fill(slot, base)
        _lock_worktree(git_dir, f"{_REASON}{run}")
    except BaseException:
        remove_worktree(repo, path)
        raise
    return slot


def _fill(slot: Slot, base: Oid) -> None:
    try:
        slot.repo.git(*_OPTIONS, "reset", "--hard", "--quiet", base)
    except GitFailed as err:
        hints = [f"git worktree add --detach PATH {base[:12]} fails in the same way"]
        if slot.repo.is_partial():
            hints.append("this is a partial clone: files that are missing come from its remote")
        raise GitFailed(err.argv, err.status, err.stderr, hint=hints) from err


def _make_full(slot: Slot) -> None:
    """Takes back what `git worktree add` copied from a sparse checkout."""
    (slot.git_dir / "info" / "sparse-checkout").unlink(missing_ok=True)
    own = slot.git_dir / "config.worktree"
    if own.exists():
        for key in ("core.sparseCheckout", "core.sparseCheckoutCone", "index.sparse"):
            slot.repo.git("config", "--file", os.fspath(own), "--unset-all", key, ok=(0, 5))


def _reset_slot(slot: Slot, base: Oid, run: str) -> Slot:
    _mend_link(slot)
    _lock_worktree(slot.git_dir, f"{_UNREADY}{run}")
    (slot.git_dir / _POOLED).unlink()
    remove_index_lock(slot.repo)
    for name in _UNFINISHED:
        remove_tree(slot.git_dir / name)
    slot.repo.git("update-ref", "--no-deref", "HEAD", base)
    slot.repo.git(*_OPTIONS, "reset", "--hard", "--quiet", base)
    slot.repo.git("clean", "-ffdxq")
    _lock_worktree(slot.git_dir, f"{_REASON}{run}")
    return slot


def reopen_slot(repo: Repo, path: Path, run: str) -> Slot | None:
    """The slot of a run once more, as the run left it; None where it is gone, or another's."""
    known = _registration_of(repo, path)
    if known is None:
        return None
    lock = Lock(path.with_name(f"{path.name}.lock"), f"run {run}")
    if not lock.acquire():
        return None
    try:
        if not path.is_dir():
            remove_worktree(repo, path)
        elif not known.is_pooled and known.lock_reason in (None, f"{_REASON}{run}"):
            slot = _opened(repo, path, known.git_dir, lock)
            _mend_link(slot)
            _lock_worktree(slot.git_dir, f"{_REASON}{run}")
            return slot
    except BaseException:
        lock.release()
        raise
    lock.release()
    return None


def run_of_slot(registration: Registration) -> str | None:
    """The run that a worktree is locked for; None where it is not."""
    reason = registration.lock_reason or ""
    owner = reason.removeprefix(_REASON).removeprefix(_UNREADY)
    return owner if owner != reason else None


def slots_of(repo: Repo, run: str) -> list[Path]:
    """The worktrees that are a run's: in use by it, or left behind by a process of it."""
    return [one.path for one in registrations(repo) if one.lock_reason == f"{_REASON}{run}"]


def give_back(slot: Slot, pool_size: int) -> bool:
    """Lets go of a slot whose state is recorded or rescued; whether it is kept for the next run.

    At most `pool_size` are kept, and none with submodules or with settings of its own. One in
    whose submodules is work that is nowhere else stays as it is.
    """
    if work_in_submodules(slot):
        keep(slot)
        return False
    known = [one for one in registrations(slot.repo) if _is_idle_neighbour(one, slot)]
    is_kept = len(known) < pool_size and _is_poolable(slot) and _lets_go(slot)
    if is_kept:
        write_atomic(slot.git_dir / _POOLED, b"")
        _unlock_worktree(slot.git_dir)
    else:
        remove_worktree(slot.repo, slot.path)
    slot.lock.release()
    return is_kept


def _lets_go(slot: Slot) -> bool:
    """Detaches HEAD; False where that cannot be, such as for a lock that a node left."""
    try:
        detach(slot)
    except GitFailed:
        return False
    return True


def _is_idle_neighbour(one: Registration, slot: Slot) -> bool:
    return (
        one.is_pooled
        and os.path.realpath(one.path.parent) == os.path.realpath(slot.path.parent)
        and one.git_dir != slot.git_dir
        and not is_locked(one.path.with_name(f"{one.path.name}.lock"))
    )


def _is_poolable(slot: Slot) -> bool:
    if (slot.git_dir / "modules").exists() or (slot.git_dir / "config.worktree").exists():
        return False
    if (slot.path / ".git").is_dir() or not slot.path.is_dir():
        return False
    listed = slot.repo.run("ls-files", "-s", "-v", "-z", ok=(0, 128))
    flagged = _FLAGGED.search(listed.stdout)
    return listed.returncode == 0 and not flagged and not _populated(slot, listed.stdout)


def _populated(slot: Slot, listed: bytes) -> list[str]:
    """The submodules that are there, of those that `ls-files` listed."""
    paths = (os.fsdecode(found[1]) for found in _GITLINK.finditer(listed))
    return [path for path in paths if os.path.lexists(slot.path / path / ".git")]


def work_in_submodules(slot: Slot) -> list[str]:
    """The submodules in which something would be lost with the worktree.

    That is what is not committed there, and commits that no remote of the submodule has: their
    objects are in the git directory of this worktree.
    """
    if not ((slot.git_dir / "modules").exists() or (slot.path / ".gitmodules").exists()):
        return []
    listed = slot.repo.run("ls-files", "-s", "-v", "-z", ok=(0, 128)).stdout
    return [path for path in _populated(slot, listed) if _has_work(slot.repo, slot.path / path)]


def _has_work(repo: Repo, path: Path) -> bool:
    inner = Repo(path / ".git", path / ".git", path, repo.object_format, repo.env)
    questions = (
        ("status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none"),
        # What `submodule update` fetched by its id alone is in FETCH_HEAD, and on no ref.
        ("rev-list", "--max-count=1", "--ignore-missing", "HEAD", "--branches", "--not",
         "--remotes", "FETCH_HEAD"),
    )  # fmt: skip
    answers = (inner.run(*words, ok=range(256), cwd=path) for words in questions)
    return any(answer.returncode != 0 or answer.stdout for answer in answers)


def keep(slot: Slot) -> None:
    """Leaves a slot as it is, for its user: no run will take it."""
    _unlock_worktree(slot.git_dir)
    slot.lock.release()


def remove_worktree(repo: Repo, path: Path) -> None:
    """Removes a worktree of ours, its registration, and whatever is in it."""
    known = _registration_of(repo, path)
    if known is not None:
        owner = (known.lock_reason or "").removeprefix(_REASON).removeprefix(_UNREADY)
        _lock_worktree(known.git_dir, f"{_UNREADY}{owner}")  # until it is gone
    done = _common(repo).run(
        "worktree", "remove", "--force", "--force", os.fspath(path), ok=(0, 128, 255)
    )
    if done.returncode != 0:
        # git looks into a worktree before it removes it, and this one is broken.
        remove_tree(path)
        if known is not None:
            remove_tree(known.git_dir)


def remove_unready(repo: Repo, run: str) -> None:
    """Removes worktrees that a killed process was making, resetting or removing.

    One that git had only begun to register makes it refuse every `git worktree`. Whoever calls
    this holds the lock of `run`, if any; those of other runs that live are left alone.
    """
    for git_dir in _git_dirs(repo):
        reason = _lock_reason(git_dir) or ""
        owner = reason.removeprefix(_UNREADY)
        if owner == reason or (owner != run and is_locked(repo.run_lock(owner))):
            continue
        known = _registration(git_dir)
        if known is None:  # git had not come to say where it is
            remove_tree(git_dir)
            continue
        lock = Lock(known.path.with_name(f"{known.path.name}.lock"), "git-wf")
        if lock.acquire():
            with lock:
                remove_worktree(repo, known.path)


def reserved_slots(repo: Repo) -> list[tuple[Path, str]]:
    """The worktrees that runs have, or that killed processes of them left; and which run."""
    return [
        (one.path, one.lock_reason.removeprefix(_REASON))
        for one in registrations(repo)
        if one.lock_reason is not None and one.lock_reason.startswith(_REASON)
    ]


def _opened(repo: Repo, path: Path, git_dir: Path, lock: Lock) -> Slot:
    return Slot(path, git_dir, repo.at_worktree(path, git_dir), lock)


def _common(repo: Repo) -> Repo:
    """The repository apart from any worktree: one may be gone or broken."""
    return Repo(repo.common_dir, repo.common_dir, None, repo.object_format, repo.env)


def _lock_worktree(git_dir: Path, reason: str) -> None:
    """As `git worktree lock`, but that one which is locked gets another reason at once."""
    write_atomic(git_dir / _LOCKED, f"{reason}\n".encode(), mode=0o644)


def _unlock_worktree(git_dir: Path) -> None:
    (git_dir / _LOCKED).unlink(missing_ok=True)


def _mend_link(slot: Slot) -> None:
    """Puts back the `.git` file that says whose worktree this is, where a node lost it."""
    link = slot.path / ".git"
    text = os.fsencode(f"gitdir: {slot.git_dir}\n")
    if link.is_dir() and not link.is_symlink():
        return
    if link.is_symlink() or not link.is_file() or link.read_bytes() != text:
        write_atomic(link, text, mode=0o644)


# Its HEAD.


@dataclass(frozen=True)
class HeadState:
    """Where a HEAD is: on a branch (a full ref name) or detached, and at which commit, if any."""

    branch: str | None
    commit: Oid | None


@dataclass(frozen=True)
class Head:
    """What the next run commit builds on.

    `branch_tip` is the run branch as it is, None where it is gone. `set_aside` holds what would
    be lost (what it was, its commit) and belongs under rescue refs.
    """

    parent: Oid
    branch_tip: Oid | None
    set_aside: list[tuple[str, Oid]]


def head_state(slot: Slot) -> HeadState:
    """Raises `GitFailed` where a node broke the worktree's git directory."""
    commit = _tips(slot, "HEAD")[0]
    return HeadState(_head_file(slot) or slot.repo.head_ref(), commit)


def attach(slot: Slot, branch: str) -> None:
    """Puts HEAD on a branch; index and files stay. Starts no process where it is there already."""
    if _head_file(slot) != branch:
        slot.repo.git("symbolic-ref", "-m", "wf: attach", "HEAD", branch)


def detach(slot: Slot) -> None:
    """HEAD stays at its commit and lets go of the branch."""
    commit = head_state(slot).commit
    if commit is not None:
        detach_at(slot, commit)


def detach_at(slot: Slot, commit: Oid) -> None:
    """HEAD goes to a commit; index and files stay."""
    slot.repo.git("update-ref", "--no-deref", "-m", "wf: detach", "HEAD", commit)


def reconcile_head(slot: Slot, branch: str, last: Oid, reader: ObjectReader | None = None) -> Head:
    """Brings HEAD to the commit that the next run commit builds on; index and files stay.

    With L the last recorded run commit and H the worktree's HEAD: H where it descends from L,
    else L. Where the run branch is there too, HEAD is on it; else HEAD is detached, so that staging
    sees the right parent, and `attach` follows once the run branch has moved. On the ref of a
    parallel branch, which is not among git's branches, HEAD never is.

    With a reader no process is started where everything is as the last checkpoint left it.
    """
    if reader is not None and _is_as_left(slot, branch, last, reader):
        return Head(last, last, [])
    try:
        head, tip = _tips(slot, "HEAD", branch)
    except GitFailed:
        _mend_git_dir(slot, last)
        head, tip = _tips(slot, "HEAD", branch)
    parent = last
    if head not in (None, last) and slot.repo.is_ancestor(last, head or last):
        parent = head or last
    aside: list[tuple[str, Oid]] = []
    for what, commit in (("HEAD", head), (f"branch '{branch}'", tip)):
        if commit is None or commit == parent or commit in (oid for _, oid in aside):
            continue
        if not slot.repo.is_ancestor(commit, parent):
            aside.append((what, commit))
    if tip == parent and branch.startswith("refs/heads/"):
        attach(slot, branch)
    elif head != parent or _head_file(slot) is not None or slot.repo.head_ref() is not None:
        detach_at(slot, parent)
    return Head(parent, tip, aside)


def _tips(slot: Slot, *names: str) -> list[Oid | None]:
    """The commits that refs name, by one process."""
    told = slot.repo.git(
        "cat-file", "--batch-check=%(objectname) %(objecttype)",
        stdin="".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape"),
    )  # fmt: skip
    tips: list[Oid | None] = []
    for line in os.fsdecode(told).splitlines():
        name, _, kind = line.rpartition(" ")
        tips.append(Oid(name) if kind == "commit" else None)
    return tips


def _is_as_left(slot: Slot, branch: str, last: Oid, reader: ObjectReader) -> bool:
    """Whether HEAD and the branch are where the last checkpoint put them, told by files.

    With refs that are not files, HEAD's file says something else: then git is asked.
    """
    expected = f"ref: {branch}\n" if branch.startswith("refs/heads/") else f"{last}\n"
    try:
        head = (slot.git_dir / "HEAD").read_bytes()
        common = (slot.git_dir / "commondir").read_bytes()
        tip = reader.find(branch)
    except (OSError, StateUnreadable):
        return False
    is_at_last = tip is not None and tip.oid == last and tip.kind == "commit"
    return is_at_last and head == os.fsencode(expected) and common == _COMMON


def _head_file(slot: Slot) -> str | None:
    """The branch that HEAD is on, as its file tells it; None where only git can tell."""
    try:
        text = os.fsdecode((slot.git_dir / "HEAD").read_bytes())
    except OSError:
        return None
    if not text.startswith("ref: refs/heads/") or text.rstrip("\n").endswith("/.invalid"):
        return None
    return text.removeprefix("ref: ").rstrip("\n")


def _mend_git_dir(slot: Slot, commit: Oid) -> None:
    """Writes again what makes a directory the git directory of a linked worktree."""
    needed = {
        "HEAD": f"{commit}\n",
        "commondir": _COMMON.decode(),
        "gitdir": f"{slot.path}/.git\n",
    }
    for name, text in needed.items():
        path = slot.git_dir / name
        if name == "HEAD" or not path.is_file():
            write_atomic(path, os.fsencode(text), mode=0o644)
