"""Files outside the object store: whole writes, locks that die with their owner, removal."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_POLL = 0.01  # seconds between two tries for a lock
_PATIENCE = 5.0  # seconds that an acquire outlasts probes, each of which is over in microseconds
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def make_directory(path: Path) -> Path:
    """`path`, made with its missing parents, each for its owner only."""
    missing = []
    here = path
    while not here.exists():
        missing.append(here)
        here = here.parent
    for directory in reversed(missing):
        with suppress(FileExistsError):
            directory.mkdir(0o700)
    if not path.is_dir():
        raise NotADirectoryError(f"not a directory: '{path}'")
    return path


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Puts `data` at `path`, whole or not at all. With `durable` it survives a power cut."""
    make_directory(path.parent)
    # A text: the parts of a Path are interned, and no two of these names are the same.
    temporary = f"{path.parent}/.{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        with open(_create(temporary, mode), "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(path.parent)


def _create(path: str | Path, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Lock:
    """An OS lock on a file: it excludes every process of the machine and dies with its owner.

    `holder` is what a contender is told of the owner, such as `process 123 on host x`. It is kept
    in a file beside the lock, so that a contender cannot truncate it. A released lock leaves
    neither file behind.
    """

    def __init__(self, path: Path, holder: str) -> None:
        self.path = path
        self.text = holder
        self._opened: int | None = None

    @property
    def held(self) -> bool:
        return self._opened is not None

    def acquire(self, wait_seconds: float = 0.0) -> bool:
        """Whether the lock is ours now. Only an owner makes it fail, never somebody's probe."""
        assert self._opened is None, self.path
        make_directory(self.path.parent)
        deadline = time.monotonic() + wait_seconds
        opened = _locked_descriptor(self.path)
        while opened is None:
            late = time.monotonic() - deadline
            if late >= 0 and (late >= _PATIENCE or is_locked(self.path)):
                return False
            time.sleep(_POLL if late < 0 else 0)
            opened = _locked_descriptor(self.path)
        self._opened = opened
        try:
            write_atomic(_holder_path(self.path), self.text.encode())
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Gives the lock up; nothing happens where it is not held.

        The files go while the lock is still ours: whoever waits on the old file sees, once it has
        it, that the path names it no longer, and opens the path again.
        """
        if self._opened is None:
            return
        opened, self._opened = self._opened, None
        try:
            if _is_at(opened, self.path):
                for path in (_holder_path(self.path), self.path):
                    with suppress(FileNotFoundError):
                        path.unlink()
        finally:
            os.close(opened)

    def __enter__(self) -> Lock:
        """For a lock that is held already, so that the caller says what a refusal means."""
        assert self._opened is not None, self.path
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _locked_descriptor(path: Path) -> int | None:
    """The lock file, opened and locked; None where another has it or it was just removed."""
    from filelock import lock_descriptor  # 80 ms to import: only for who takes a lock

    opened = os.open(path, _LOCK_FLAGS, 0o600)
    try:
        ours = lock_descriptor(opened, blocking=False) and _is_at(opened, path)
    except BaseException:
        os.close(opened)
        raise
    if not ours:
        os.close(opened)
        return None
    return opened


def _is_at(opened: int, path: Path) -> bool:
    """Whether `path` still names the opened file."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(opened), there)


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock: a shared lock, tried for an instant, tells."""
    while True:
        try:
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = _is_at(opened, path)
        except BlockingIOError:
            return True
        finally:
            os.close(opened)
        if free:
            return False


def holder(path: Path) -> str:
    """Who holds the lock, in the words that the owner left: for what `is_locked`."""
    with suppress(FileNotFoundError):
        told = _holder_path(path).read_text("utf-8", "replace").strip()
        if told:
            return told
    return "another process"


def _holder_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.holder")


def remove_tree(path: Path) -> None:
    """Removes whatever is at `path`, read-only directories too. Never follows a symlink.

    Nothing at `path` is no error; what cannot be removed raises `OSError`.
    """
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            _empty_directory(_open_directory(os.fspath(path), None))
            os.rmdir(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        return


def _empty_directory(opened: int) -> None:
    """Removes all that is in an opened directory, and closes it."""
    try:
        with os.scandir(opened) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_directory in entries:
            if is_directory:
                _empty_directory(_open_directory(name, opened))
                os.rmdir(name, dir_fd=opened)
            else:
                os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)


def _open_directory(name: str, parent: int | None) -> int:
    """A directory, opened for removing what is in it; made writable where it is not."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        opened = os.open(name, flags, dir_fd=parent)
    try:
        if os.fstat(opened).st_mode & 0o700 != 0o700:
            os.fchmod(opened, 0o700)
    except BaseException:
        os.close(opened)
        raise
    return opened
