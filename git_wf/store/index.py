"""What git's index says of some paths, read from its file.

Versions 2 and 3 are read, split or not (gitformat-index(5)). A split index is a small file with
what changed since a shared one was written: entries that replace one of the shared file have no
name, and a bitmap tells which they replace. Whatever is not known here raises `NotReadable`: then
git has to be asked.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from git_wf.core.names import Oid
from git_wf.store.objects import Entry, new_hash

_HEADER = struct.Struct(">4sII")
_MODE_AT = 24  # in an entry: behind two times, device and inode
_OID_AT = 40
_EXTENDED, _STAGE, _NAME_LENGTH = 0x4000, 0x3000, 0x0FFF
_INTENT_TO_ADD = 0x2000  # in the second half of the flags
_SPLIT = b"link"
_WORN = 10  # a split index is worn when a tenth of the shared one was replaced


class NotReadable(Exception):
    """The index is of a form that is not known here, or a path in it is unmerged."""


@dataclass(frozen=True)
class _Shared:
    """The file that a split index is a change of, and where each entry of it begins."""

    name: str
    data: bytes
    starts: array[int]


@dataclass(frozen=True)
class _Link:
    """What a split index changes: positions in the shared one."""

    shared: _Shared
    deleted: frozenset[int]
    replaced: list[int]


class IndexReader:
    """Reads the index of one worktree again and again; remembers the shared part of a split one.

    `is_split`: whether it was, when it was last read; `is_worn`: whether much of the shared part
    was replaced by then, which git does not count.
    """

    def __init__(self, git_dir: Path, object_format: str) -> None:
        self.is_split = self.is_worn = False
        self._git_dir = git_dir
        self._format = object_format
        self._width: int = new_hash(object_format).digest_size
        self._shared: _Shared | None = None

    def entries(self, paths: Iterable[bytes]) -> dict[bytes, Entry | None]:
        """What the index has at `paths`; None where it has nothing that a tree would get.

        Raises `NotReadable`.
        """
        wanted = set(paths)
        try:
            data = (self._git_dir / "index").read_bytes()
            self._check(data)
            found = self._read(data, wanted)
        except (OSError, struct.error, IndexError, ValueError) as err:
            raise NotReadable(str(err)) from err
        return {path: found.get(path) for path in wanted}

    def _check(self, data: bytes) -> None:
        """The checksum at its end, which may be left out (`index.skipHash`)."""
        trailer = data[-self._width :]
        if trailer.strip(b"\0"):
            digest = new_hash(self._format)
            digest.update(memoryview(data)[: -self._width])
            if digest.digest() != trailer:
                raise NotReadable("its checksum is wrong")

    def _read(self, data: bytes, wanted: set[bytes]) -> dict[bytes, Entry | None]:
        starts, end = self._walk(data)
        link = self._link(data, end)
        self.is_split = link is not None
        self.is_worn = link is not None and len(starts) * _WORN > len(link.shared.starts)
        # In a split index those that replace others come first, in the order of the others.
        replaced = {} if link is None else dict(zip(link.replaced, starts, strict=False))
        if len(replaced) > len(starts):
            raise NotReadable("fewer entries than it replaces")
        found: dict[bytes, Entry | None] = {}
        for path in wanted:
            position = self._find(data, starts, path, first=len(replaced))
            if position is not None:
                found[path] = self._entry(data, starts[position])
            elif link is not None:
                found[path] = self._shared_entry(data, link, replaced, path)
        return found

    def _shared_entry(
        self, data: bytes, link: _Link, replaced: Mapping[int, int], path: bytes
    ) -> Entry | None:
        shared = link.shared
        position = self._find(shared.data, shared.starts, path)
        if position is None or position in link.deleted:
            return None
        if position in replaced:
            return self._entry(data, replaced[position])
        return self._entry(shared.data, shared.starts[position])

    def _find(self, data: bytes, starts: array[int], path: bytes, first: int = 0) -> int | None:
        """Which of the entries from the `first` on, which are sorted, is that of a path."""
        position = bisect_left(starts, path, first, key=lambda start: self._name(data, start))
        if position == len(starts) or self._name(data, starts[position]) != path:
            return None
        return position

    def _walk(self, data: bytes) -> tuple[array[int], int]:
        """Where each entry begins, and where the last one ends."""
        magic, version, count = _HEADER.unpack_from(data)
        if magic != b"DIRC" or version not in (2, 3):
            raise NotReadable(f"version {version}")
        starts = array("I")
        flags_at, at = _OID_AT + self._width, _HEADER.size
        for _ in range(count):
            starts.append(at)
            flags = data[at + flags_at] << 8 | data[at + flags_at + 1]
            size = flags_at + 2 + (2 if flags & _EXTENDED else 0)
            length = flags & _NAME_LENGTH
            if length == _NAME_LENGTH:
                length = data.index(b"\0", at + size) - at - size
            at += (size + length + 8) & ~7
        return starts, at

    def _name(self, data: bytes, start: int) -> bytes:
        at = start + _OID_AT + self._width
        at += 4 if data[at] & _EXTENDED >> 8 else 2
        return data[at : data.index(b"\0", at)]

    def _entry(self, data: bytes, start: int) -> Entry | None:
        at = start + _OID_AT
        oid = Oid(data[at : at + self._width].hex())
        at += self._width
        flags = data[at] << 8 | data[at + 1]
        if flags & _STAGE:
            raise NotReadable("a path is unmerged")
        if flags & _EXTENDED and (data[at + 2] << 8 | data[at + 3]) & _INTENT_TO_ADD:
            return None
        (mode,) = struct.unpack_from(">I", data, start + _MODE_AT)
        return Entry(f"{mode:o}", oid)

    # A split index.

    def _link(self, data: bytes, at: int) -> _Link | None:
        """What the extensions behind the entries tell of a shared index."""
        link = None
        for name, start, size in _extensions(data, at, len(data) - self._width):
            if name == _SPLIT:
                link = data[start : start + size]
            elif not b"A" <= name[:1] <= b"Z":
                raise NotReadable(f"extension {name!r}")  # git refuses what it does not know, too
        if link is None or not link[: self._width].strip(b"\0"):
            return None
        shared = self._load(link[: self._width].hex())
        if len(link) == self._width:
            return _Link(shared, frozenset(), [])
        deleted, after = _bitmap(link, self._width)
        replaced, _ = _bitmap(link, after)
        return _Link(shared, frozenset(deleted), replaced)

    def _load(self, name: str) -> _Shared:
        if self._shared is None or self._shared.name != name:
            data = (self._git_dir / f"sharedindex.{name}").read_bytes()
            self._check(data)
            starts, _ = self._walk(data)
            self._shared = _Shared(name, data, starts)
        return self._shared


def _extensions(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and size of each."""
    while at < end:
        name, size = struct.unpack_from(">4sI", data, at)
        yield name, at + 8, size
        at += 8 + size


def _bitmap(data: bytes, at: int) -> tuple[list[int], int]:
    """The positions of the set bits of a bitmap as EWAH compresses it; and where it ends.

    Each marker word tells a repeated bit, how many words are all that bit, and how many literal
    words follow.
    """
    _, count = struct.unpack_from(">II", data, at)
    words = struct.unpack_from(f">{count}Q", data, at + 8)
    ones: list[int] = []
    position = shift = 0
    while position < count:
        marker = words[position]
        run, literals = marker >> 1 & 0xFFFFFFFF, marker >> 33
        if marker & 1:
            ones.extend(range(shift, shift + 64 * run))
        shift += 64 * run
        for word in words[position + 1 : position + 1 + literals]:
            while word:
                lowest = word & -word
                ones.append(shift + lowest.bit_length() - 1)
                word ^= lowest
            shift += 64
        position += 1 + literals
    return ones, at + 8 + 8 * count + 4


def index_size(git_dir: Path) -> int:
    """Bytes of an index file; 0 where there is none."""
    try:
        return os.stat(git_dir / "index").st_size
    except OSError:
        return 0
