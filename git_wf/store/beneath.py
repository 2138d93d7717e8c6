"""Files below one directory, reached without ever following a symlink.

A path is opened component by component: whatever somebody puts in its way meanwhile, nothing
outside the directory is read or written. Paths are bytes, from the directory.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

# A directory that may be entered but not listed can be opened by a path alone, where there is that.
_LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = 64  # directories that are kept open
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def is_absent(err: OSError) -> bool:
    """Whether there is no such path, or a component of it is no directory."""
    return err.errno in ABSENT


class Beneath:
    """Remembers the directories that it opened last, so that sorted paths cost one call each."""

    def __init__(self, top: str | os.PathLike[str]) -> None:
        self._top = os.open(top, _LOOK & ~os.O_NOFOLLOW)
        self._opened: dict[bytes, int] = {}

    def close(self) -> None:
        self.forget()
        os.close(self._top)

    def __enter__(self) -> Beneath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget(self) -> None:
        """To be called where directories were removed or replaced."""
        for opened in self._opened.values():
            os.close(opened)
        self._opened.clear()

    def directory(self, path: bytes) -> int:
        """A descriptor of a directory, ours to close. Raises `OSError`, as all that follow."""
        if not path:
            return self._top
        opened = self._opened.get(path)
        if opened is None:
            parent, _, name = path.rpartition(b"/")
            opened = os.open(name, _LOOK, dir_fd=self.directory(parent))
            if len(self._opened) >= _OPEN:
                oldest = next(iter(self._opened))
                os.close(self._opened.pop(oldest))
            self._opened[path] = opened
        return opened

    def lstat(self, path: bytes) -> os.stat_result:
        parent, _, name = path.rpartition(b"/")
        return os.stat(name, dir_fd=self.directory(parent), follow_symlinks=False)

    def find(self, path: bytes) -> os.stat_result | None:
        """As `lstat`; None where there is nothing, or a component is no directory."""
        try:
            return self.lstat(path)
        except OSError as err:
            if is_absent(err):
                return None
            raise

    def open_file(self, path: bytes) -> int:
        """A regular file, for reading; whatever else is there is never waited for."""
        parent, _, name = path.rpartition(b"/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        opened = os.open(name, flags, dir_fd=self.directory(parent))
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise FileNotFoundError(errno.ENOENT, "no longer a file", os.fsdecode(path))
        return opened

    def readlink(self, path: bytes) -> bytes:
        parent, _, name = path.rpartition(b"/")
        return os.readlink(name, dir_fd=self.directory(parent))

    def names(self, path: bytes) -> list[tuple[bytes, bool]]:
        """What is in a directory, and whether each is a directory itself."""
        parent, _, name = path.rpartition(b"/")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        # By a dot the top itself: a descriptor that was opened for looking cannot be listed.
        opened = os.open(name or b".", flags, dir_fd=self.directory(parent))
        try:
            with os.scandir(opened) as found:
                return [
                    (os.fsencode(entry.name), entry.is_dir(follow_symlinks=False))
                    for entry in found
                ]
        finally:
            os.close(opened)

    def make_directories(self, path: bytes) -> None:
        """`path` and its parents, where they are not there."""
        if not path:
            return
        try:
            self.directory(path)
        except FileNotFoundError:
            parent, _, name = path.rpartition(b"/")
            self.make_directories(parent)
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.directory(parent))
            self.directory(path)

    def unlink(self, path: bytes) -> None:
        parent, _, name = path.rpartition(b"/")
        os.unlink(name, dir_fd=self.directory(parent))

    def rmdir(self, path: bytes) -> bool:
        """Whether the directory was empty, and went."""
        parent, _, name = path.rpartition(b"/")
        try:
            os.rmdir(name, dir_fd=self.directory(parent))
        except OSError as err:
            if err.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.EINVAL):
                return False
            raise
        for known in [one for one in self._opened if one == path or one.startswith(path + b"/")]:
            os.close(self._opened.pop(known))
        return True

    def replace(self, source: str, path: bytes) -> None:
        """Moves what is at `source`, a path of the machine, to `path`."""
        parent, _, name = path.rpartition(b"/")
        os.replace(os.fsencode(source), name, dst_dir_fd=self.directory(parent))

    def chmod(self, path: bytes, mode: int) -> None:
        """Of a regular file or a directory. Raises `OSError` where it is neither."""
        parent, _, name = path.rpartition(b"/")
        if os.chmod in os.supports_follow_symlinks:
            os.chmod(name, mode, dir_fd=self.directory(parent), follow_symlinks=False)
            return
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            opened = os.open(name, flags, dir_fd=self.directory(parent))
        except PermissionError:  # one that we own and cannot read
            if stat.S_ISLNK(self.lstat(path).st_mode):
                raise
            os.chmod(name, mode, dir_fd=self.directory(parent))
            return
        try:
            os.fchmod(opened, mode)
        finally:
            os.close(opened)

    def is_writable(self, path: bytes) -> bool:
        """Whether entries of a directory can be made and removed."""
        return os.access(
            b".", os.W_OK | os.X_OK, dir_fd=self.directory(path), effective_ids=_EFFECTIVE
        )


_EFFECTIVE = os.access in os.supports_effective_ids
