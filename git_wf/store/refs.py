"""The only writer of refs: transactions of `git update-ref`, each line with its expected old value.

A refused transaction ends git's process. Then the refs are read again, to tell a lost race
(`Conflict`) from a name that is taken (`UserError`) and a broken repository (`GitFailed`).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from git_wf.core.names import Oid, RefName
from git_wf.errors import Conflict, GitFailed, UserError
from git_wf.store.repo import Repo

_WORKTREES = "worktrees/"
_TRIES = 3  # of a transaction that something passing, such as gc's pack-refs, got in the way of
_PAUSE = 0.05  # seconds between them
_LIFE = 60.0  # seconds; git dates all reflog entries of a process by its first
_LOCK_AGE = 1.0  # seconds that a ref's lock stands still before it is nobody's
_PACKED_LOCK_AGE = 10.0  # the same of the lock of all packed refs, which are written anew


@dataclass(frozen=True)
class RefUpdate:
    """A ref's move from `old` to `new`: `old` None makes it, `new` None removes it."""

    ref: RefName
    new: Oid | None
    old: Oid | None

    def line(self) -> str:
        """The command of `git update-ref --stdin`, for people."""
        return " ".join(self._words())

    def command(self) -> bytes:
        """The command of `git update-ref --stdin -z`."""
        verb, ref, *oids = self._words()
        words = [f"{verb} {ref}", *oids]
        if ref.startswith(_WORKTREES):  # HEAD itself, and not a branch that it may be on by now
            words.insert(0, "option no-deref")
        return "".join(f"{word}\0" for word in words).encode()

    def _words(self) -> list[str]:
        assert self.new or self.old, self.ref
        if self.old is None:
            return ["create", self.ref, str(self.new)]
        if self.new is None:
            return ["delete", self.ref, self.old]
        return ["update", self.ref, self.new, self.old]


def worktree_head(git_dir: Path) -> RefName:
    """The HEAD of a linked worktree, as the repository names it."""
    return RefName(f"{_WORKTREES}{git_dir.name}/HEAD")


class Transaction:
    """A live `git update-ref`: about 0.4 ms a transaction.

    `reason` is the reflog message of all its moves. `identity_env` has the committer that the
    reflog names (GIT_COMMITTER_NAME, _EMAIL, perhaps _DATE). One thread at a time.
    """

    def __init__(self, repo: Repo, reason: str, identity_env: Mapping[str, str]) -> None:
        assert "\n" not in reason, reason
        self.repo = repo
        self._reason = reason
        self._env = dict(identity_env)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._started = 0.0

    def apply(self, updates: Sequence[RefUpdate]) -> None:
        """All moves, or none. Raises `Conflict`, `UserError` or `GitFailed`.

        On the files backend git makes them one by one, in our order, so that a crash of the
        machine in the middle can leave only the first of them made. So refs that keep something
        come before those that leave it behind, and whatever goes comes last. Locks that a crash
        left on the refs are removed: whoever calls this holds the locks of the runs they are of.
        """
        updates = in_order(updates)
        tries = 0
        while updates:
            refused = self._attempt(updates)
            if refused is None:
                return
            if refused.committing:
                updates = _not_yet_made(self.repo, updates)
            _explain(self.repo, updates)
            tries += 1
            if tries >= _TRIES and not (tries == _TRIES and _remove_locks(self.repo, updates)):
                raise GitFailed(self._command(), refused.status, refused.stderr)
            time.sleep(_PAUSE)

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _attempt(self, updates: Sequence[RefUpdate]) -> _Refusal | None:
        """None where it went through."""
        process = self._running()
        commands = b"".join(update.command() for update in updates)
        committing = False
        try:
            # All at once: where the transaction cannot be prepared, git ends before the commit.
            self._say(process, b"start\0" + commands + b"prepare\0commit\0")
            if self._hears(process, b"start: ok\n") and self._hears(process, b"prepare: ok\n"):
                committing = True
                if self._hears(process, b"commit: ok\n"):
                    return None
        except BrokenPipeError:
            pass
        except BaseException:
            self._end()
            raise
        status, stderr = self._end()
        return _Refusal(status, stderr, committing)

    def _say(self, process: subprocess.Popen[bytes], data: bytes) -> None:
        assert process.stdin is not None
        process.stdin.write(data)
        process.stdin.flush()

    def _hears(self, process: subprocess.Popen[bytes], answer: bytes) -> bool:
        assert process.stdout is not None
        return process.stdout.readline() == answer

    def _command(self) -> list[str]:
        return self.repo.command(
            "update-ref", "--create-reflog", "-m", self._reason, "--stdin", "-z"
        )

    def _running(self) -> subprocess.Popen[bytes]:
        old = time.monotonic() - self._started > _LIFE and "GIT_COMMITTER_DATE" not in self._env
        if self._process is not None and (old or self._process.poll() is not None):
            self._end()
        if self._process is None:
            import tempfile  # readers do without what it imports

            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (`_end` closes it)
            self._started = time.monotonic()
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self.repo.environment(self._env),
                cwd=self.repo.common_dir,
                start_new_session=True,  # a Ctrl-C must not end it between two refs
            )
        return self._process

    def _end(self) -> tuple[int, str]:
        """Ends the process: what is not committed is undone. Its status, and what it said."""
        process, self._process = self._process, None
        stderr, self._stderr = self._stderr, None
        assert process is not None and process.stdin is not None and stderr is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        status = process.wait()
        assert process.stdout is not None
        process.stdout.close()
        with stderr:
            stderr.seek(0)
            return status, stderr.read().decode("utf-8", "replace")


def in_order(updates: Iterable[RefUpdate]) -> list[RefUpdate]:
    """As a transaction has them: what is made, what moves, what goes."""
    return sorted(updates, key=lambda one: 0 if one.old is None else 1 if one.new else 2)


@dataclass(frozen=True)
class _Refusal:
    status: int
    stderr: str
    committing: bool  # every ref was locked and verified before it went wrong


def move_refs(
    repo: Repo, updates: Sequence[RefUpdate], reason: str, identity_env: Mapping[str, str]
) -> None:
    """One transaction with its own reflog message. Raises as `Transaction.apply`."""
    with Transaction(repo, reason, identity_env) as transaction:
        transaction.apply(updates)


def _not_yet_made(repo: Repo, updates: Sequence[RefUpdate]) -> list[RefUpdate]:
    there = list_refs(repo, *(update.ref for update in updates))
    return [update for update in updates if there.get(update.ref) != update.new]


def _explain(repo: Repo, updates: Sequence[RefUpdate]) -> None:
    """Raises what a user can be told of a refusal; returns where the refs do not tell."""
    roots = {"/".join(update.ref.split("/")[:2]) for update in updates}
    there = list_refs(repo, *roots)
    for update in updates:
        now = there.get(update.ref)
        if now != update.old:
            raise Conflict(
                f"ref '{update.ref}' was moved by somebody else: "
                f"expected {update.old or 'none'}, found {now or 'none'}",
                hint="git wf log shows where the run is now",
            )
    leaving = {update.ref for update in updates if update.new is None}
    for update in updates:
        taken = _in_the_way(update.ref, set(there) - leaving) if update.new else None
        if taken is not None:
            raise _taken(update.ref, taken)


def _in_the_way(ref: str, there: Iterable[str]) -> str | None:
    """A ref that is a directory of `ref`, or below it: both cannot exist."""
    for other in sorted(there):
        if other != ref and (ref.startswith(f"{other}/") or other.startswith(f"{ref}/")):
            return other
    return None


def _taken(ref: str, taken: str) -> UserError:
    if not taken.startswith("refs/heads/"):
        return UserError(
            f"ref '{taken}' is in the way of '{ref}'",
            hint=["git config wf.namespace NAME", f"git update-ref -d {shlex.quote(taken)}"],
        )
    branch = taken.removeprefix("refs/heads/")
    return UserError(
        f"branch '{branch}' is in the way of '{ref.removeprefix('refs/heads/')}'",
        hint=["git config wf.namespace NAME", f"git branch -m {shlex.quote(branch)} NEW-NAME"],
    )


def list_refs(repo: Repo, *prefixes: str) -> dict[RefName, Oid]:
    """Refs and what they point to, by name; of `prefixes` (whole path components) if given."""
    listed = repo.git("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
    refs = {}
    for line in os.fsdecode(listed).splitlines():
        oid, _, ref = line.partition(" ")
        refs[RefName(ref)] = Oid(oid)
    return refs


def read_ref(repo: Repo, ref: str) -> Oid | None:
    """What a ref points to, by its full name."""
    return list_refs(repo, ref).get(RefName(ref))


def _remove_locks(repo: Repo, updates: Sequence[RefUpdate]) -> bool:
    """Whether a lock was in the way of these updates that nobody holds any more."""
    removed = remove_stale_locks(repo, [update.ref for update in updates])
    if any(update.new is None for update in updates):
        removed += remove_packed_lock(repo)
    return bool(removed)


def remove_stale_locks(repo: Repo, refs: Iterable[str], paths: Iterable[Path] = ()) -> list[Path]:
    """Removes the `.lock` files that a killed git left on `refs` and below, and those at `paths`.

    Only for whoever holds the run's lock. `paths` are such as the `index.lock` and `HEAD.lock` of
    the run's own worktree. A lock that changes or goes within a second is somebody's at work
    (gc packs refs, for one) and stays. Returns what was removed.
    """
    candidates = list(paths)
    for ref in refs:
        place = repo.common_dir / ref
        candidates += [place.with_name(f"{place.name}.lock"), *place.rglob("*.lock")]
    return _remove_still(candidates, _LOCK_AGE)


def remove_packed_lock(repo: Repo) -> list[Path]:
    """The same of the lock that every deletion of a ref takes, and so may be anybody's.

    Whoever holds it writes all packed refs to a file beside it. It stays where that grows.
    """
    packed = repo.common_dir / "packed-refs"
    lock = packed.with_name("packed-refs.lock")
    return _remove_still([lock], _PACKED_LOCK_AGE, packed.with_name("packed-refs.new"))


def _remove_still(paths: Iterable[Path], age: float, *beside: Path) -> list[Path]:
    """Removes files that have not changed for `age` seconds, waiting for it once."""
    seen = {path: mark for path in paths if (mark := _mark(path)) is not None}
    if not seen:
        return []
    others = [_mark(path) for path in beside]
    youngest = max(mark[1] for mark in (*seen.values(), *others) if mark is not None)
    time.sleep(min(max(age - (time.time() - youngest), 0), age))
    removed = []
    for path, mark in seen.items():
        if _mark(path) == mark and [_mark(other) for other in beside] == others:
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def _mark(path: Path) -> tuple[int, float] | None:
    """Which file is at `path`, and when it was changed."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime
