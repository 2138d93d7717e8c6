"""An index of our own of what a workspace holds: git finds by it what changed since.

It is a file that git reads (version 2, gitformat-index(5)), with ids of the files' plain bytes,
and it is written here only: git is asked by `diff-files` which files do not look as they did, and
by `ls-files --others` which are new. Git compares whole seconds, so an entry whose file changed
just before it was read is marked: git tells it every time, and the nanoseconds decide.
"""

from __future__ import annotations

import os
import stat
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from git_wf.core.names import Oid
from git_wf.store.objects import GITLINK_MODE, Entry, new_hash

_HEADER = struct.Struct(">4sII")
_FIELDS = struct.Struct(">10I")  # ctime, mtime (s, ns each), dev, ino, mode, uid, gid, size
_WORD = 0xFFFFFFFF
_MARK = 0xFFFFFFFE  # in place of the owner: no user has this number, so git tells the entry
_EXTENDED, _STAGE, _VALID, _NAME_LENGTH = 0x4000, 0x3000, 0x8000, 0x0FFF
_SKIP_OR_INTENT = 0x6000  # of the second half of the flags: skip-worktree, intent-to-add
FILE_MODES = {stat.S_IFREG: "100644", stat.S_IFLNK: "120000"}


class NotKnown(Exception):
    """An index of a form that is not read here."""


class Look(NamedTuple):
    """How a file looked when it was read: what tells whether it is still the same."""

    mtime_ns: int
    ctime_ns: int
    ino: int
    size: int
    dev: int = 0
    uid: int = 0
    gid: int = 0

    @classmethod
    def of(cls, found: os.stat_result) -> Look:
        return cls(
            found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size,
            found.st_dev, found.st_uid, found.st_gid,
        )  # fmt: skip

    @property
    def key(self) -> tuple[int, int, int, int, int, int]:
        """What an index keeps of it."""
        return (
            self.ctime_ns // 1_000_000_000 & _WORD, self.ctime_ns % 1_000_000_000,
            self.mtime_ns // 1_000_000_000 & _WORD, self.mtime_ns % 1_000_000_000,
            self.ino & _WORD, self.size & _WORD,
        )  # fmt: skip


NOWHERE = Look(0, 0, 0, 0)


def git_mode(found: os.stat_result) -> str | None:
    """The mode that a tree has for a file or symlink; None of what is neither."""
    kind = FILE_MODES.get(stat.S_IFMT(found.st_mode))
    return "100755" if kind == "100644" and found.st_mode & 0o100 else kind


class Record(NamedTuple):
    """An entry as it is written. With `marked` git tells it again the next time."""

    entry: Entry
    look: Look
    marked: bool

    def encode(self, name: bytes, width: int) -> bytes:
        ctime, ctime_ns, mtime, mtime_ns, ino, size = self.look.key
        uid = _MARK if self.marked else self.look.uid & _WORD
        fields = _FIELDS.pack(
            ctime, ctime_ns, mtime, mtime_ns, self.look.dev & _WORD, ino, int(self.entry.mode, 8),
            uid, self.look.gid & _WORD, size,
        )  # fmt: skip
        oid = bytes.fromhex(self.entry.oid)
        flags = min(len(name), _NAME_LENGTH).to_bytes(2, "big")
        length = len(fields) + width + 2 + len(name)
        return b"".join((fields, oid, flags, name, bytes(8 - length % 8)))


class Stored(NamedTuple):
    """An entry as it was read."""

    entry: Entry
    key: tuple[int, int, int, int, int, int]  # as `Look.key`
    is_trusted: bool  # neither marked by git nor by us, and of one stage


class CapturedIndex:
    """The entries of an index in memory. `starts` are the offsets of the entries in `data`."""

    def __init__(self, data: bytes, starts: array[int], object_format: str) -> None:
        self.data = data
        self.starts = starts
        self.object_format = object_format
        self._width: int = new_hash(object_format).digest_size
        self._name_at = _FIELDS.size + self._width + 2

    @classmethod
    def empty(cls, object_format: str) -> CapturedIndex:
        return cls(_HEADER.pack(b"DIRC", 2, 0), array("I"), object_format)

    @classmethod
    def of_records(cls, records: Mapping[bytes, Record], object_format: str) -> CapturedIndex:
        width: int = new_hash(object_format).digest_size
        parts, starts, at = [], array("I"), _HEADER.size
        for name in sorted(records):
            part = records[name].encode(name, width)
            starts.append(at)
            parts.append(part)
            at += len(part)
        data = b"".join((_HEADER.pack(b"DIRC", 2, len(parts)), *parts))
        return cls(data, starts, object_format)

    @classmethod
    def read(cls, data: bytes, object_format: str, starts: bytes = b"") -> CapturedIndex:
        """One of ours, or of git's own of version 2 or 3. Raises `NotKnown` of any other."""
        found = cls(data, array("I"), object_format)
        try:
            magic, version, count = _HEADER.unpack_from(data)
            if magic != b"DIRC" or version not in (2, 3):
                raise NotKnown(f"version {version}")
            if starts:
                found.starts.frombytes(starts)
            else:
                found._walk(count)
        except (struct.error, IndexError, ValueError) as err:
            raise NotKnown(str(err)) from err
        if len(found.starts) != count:
            raise NotKnown("another number of entries")
        return found

    def checksum(self) -> str:
        return self.data[-self._width :].hex()

    def __len__(self) -> int:
        return len(self.starts)

    def names(self) -> Iterator[bytes]:
        """In order; a name of several stages comes several times."""
        for start in self.starts:
            yield self._name(start)

    def position(self, name: bytes) -> int:
        """Where `name` is, or would be."""
        return bisect_left(self.starts, name, key=self._name)

    def find(self, name: bytes) -> Stored | None:
        at = self.position(name)
        if at == len(self.starts) or self._name(self.starts[at]) != name:
            return None
        return self.stored(at)

    def stored(self, position: int) -> Stored:
        start = self.starts[position]
        ctime, ctime_ns, mtime, mtime_ns, _, ino, mode, uid, _, size = _FIELDS.unpack_from(
            self.data, start
        )
        at = start + _FIELDS.size
        oid = Oid(self.data[at : at + self._width].hex())
        at += self._width
        flags = self.data[at] << 8 | self.data[at + 1]
        bad = bool(flags & (_STAGE | _VALID)) or uid == _MARK
        if flags & _EXTENDED:
            bad = bad or bool((self.data[at + 2] << 8 | self.data[at + 3]) & _SKIP_OR_INTENT)
        return Stored(
            Entry(f"{mode:o}", oid), (ctime, ctime_ns, mtime, mtime_ns, ino, size), not bad
        )

    def below(self, directory: bytes) -> Iterator[bytes]:
        """The names below a directory, which ends with a slash."""
        at = self.position(directory)
        while at < len(self.starts):
            name = self._name(self.starts[at])
            if not name.startswith(directory):
                return
            yield name
            at += 1

    def gitlinks(self) -> list[bytes]:
        """Names that stand for a repository."""
        wanted = int(GITLINK_MODE, 8).to_bytes(4, "big")
        return [
            self._name(start)
            for start in self.starts
            if self.data[start + 24 : start + 28] == wanted
        ]

    def edited(self, changes: Mapping[bytes, Record | None]) -> CapturedIndex:
        """With other entries at some names; None: there is none any more."""
        parts: list[bytes] = []
        starts = array("I")
        copied = 0  # entries that are dealt with
        length = _HEADER.size
        for name in sorted(changes):
            at = self.position(name)
            length = self._copy(copied, at, parts, starts, length)
            there = at < len(self.starts) and self._name(self.starts[at]) == name
            copied = at + 1 if there else at
            record = changes[name]
            if record is not None:
                made = record.encode(name, self._width)
                starts.append(length)
                parts.append(made)
                length += len(made)
        self._copy(copied, len(self.starts), parts, starts, length)
        data = b"".join((_HEADER.pack(b"DIRC", 2, len(starts)), *parts))
        return CapturedIndex(data, starts, self.object_format)

    def _copy(
        self, first: int, end: int, parts: list[bytes], starts: array[int], length: int
    ) -> int:
        """Takes over the entries from `first` to before `end`. How long it all is then."""
        if first >= end:
            return length
        begin = self.starts[first]
        stop = self.starts[end] if end < len(self.starts) else self._end()
        parts.append(self.data[begin:stop])
        shift = length - begin
        if shift:
            starts.extend([start + shift for start in self.starts[first:end]])
        else:
            starts.extend(self.starts[first:end])
        return length + stop - begin

    def encode(self) -> bytes:
        """The file, with its checksum."""
        body = self.data[: self._end()]
        digest = new_hash(self.object_format)
        digest.update(body)
        return b"".join((body, digest.digest()))

    def extensions(self) -> set[bytes]:
        found, at, end = set(), self._end(), len(self.data) - self._width
        while at + 8 <= end:
            name, size = struct.unpack_from(">4sI", self.data, at)
            found.add(name)
            at += 8 + size
        return found

    def _end(self) -> int:
        """Where the last entry ends."""
        return self._after(self.starts[-1]) if self.starts else _HEADER.size

    def _walk(self, count: int) -> None:
        at = _HEADER.size
        for _ in range(count):
            self.starts.append(at)
            at = self._after(at)

    def _after(self, start: int) -> int:
        flags_at = start + _FIELDS.size + self._width
        flags = self.data[flags_at] << 8 | self.data[flags_at + 1]
        size = self._name_at + (2 if flags & _EXTENDED else 0)
        length = flags & _NAME_LENGTH
        if length == _NAME_LENGTH:
            length = self.data.index(b"\0", start + size) - start - size
        after: int = start + (size + length + 8 & ~7)
        return after

    def _name(self, start: int) -> bytes:
        at = start + self._name_at
        if self.data[at - 2] & _EXTENDED >> 8:
            at += 2
        return self.data[at : self.data.index(b"\0", at)]


def noted_tree(data: bytes, object_format: str) -> Oid | None:
    """The tree of a whole index file, where git has noted it since the last change."""
    width: int = new_hash(object_format).digest_size
    end = len(data) - width
    at = data.rfind(b"TREE", 0, end)
    if at < 0 or not _are_extensions(data, at, end):
        return None
    (size,) = struct.unpack_from(">I", data, at + 4)
    _, _, rest = data[at + 8 : at + 8 + size].partition(b"\0")
    counts, _, rest = rest.partition(b"\n")
    valid = not counts.startswith(b"-") and len(rest) >= width
    return Oid(rest[:width].hex()) if valid else None


def _are_extensions(data: bytes, at: int, end: int) -> bool:
    """Whether what begins there is a row of extensions up to the end."""
    while at + 8 <= end:
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    return at == end
