"""Bytes of files as git stores them when nobody asks for a conversion, written into one pack.

Files are hashed first, so that what the repository has is not stored twice; then what is new is
compressed into a pack in a quarantine, from where `packs.Pack` takes it over.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from git_wf.core.names import Oid
from git_wf.store.objects import CHUNK, new_hash, object_header
from git_wf.store.packs import PackEntry, encode_index

_HEADER = 12  # bytes: magic, version, number of objects
_TRIES = 3  # of a file that somebody is writing to
_LEVEL = 1  # as git compresses loose objects: speed before size, until a gc packs them
_BLOB = 3
_HELD = 64 << 20  # bytes of small files that are held between hashing and writing
_SMALL = 1 << 20  # bytes; a larger file is read in parts


class Changing(OSError):
    """A file that was another each time that it was read."""


class FileHash:
    """A blob's id, and its content where it is small enough to be held."""

    def __init__(self, oid: Oid, size: int, data: bytes | None, lines: int) -> None:
        self.oid = oid
        self.size = size
        self.data = data
        self.lines = lines  # 0 of a binary file, as git counts


class Hasher:
    """Hashes what is read; holds small contents until there is too much of them."""

    def __init__(self, object_format: str) -> None:
        self._format = object_format
        self._held = 0

    def data(self, data: bytes) -> FileHash:
        digest = new_hash(self._format)
        digest.update(object_header("blob", len(data)))
        digest.update(data)
        keep = len(data) <= _SMALL and self._held + len(data) <= _HELD
        self._held += len(data) if keep else 0
        return FileHash(
            Oid(digest.hexdigest()), len(data), data if keep else None, count_lines(data)
        )

    def file(self, opened: int) -> FileHash:
        """Of an opened file, from its begin: as long as it was when the reading began."""
        for _ in range(_TRIES):
            size = os.fstat(opened).st_size
            os.lseek(opened, 0, os.SEEK_SET)
            if size <= _SMALL:
                return self.data(_read(opened, size))
            found = self._large(opened, size)
            if found is not None:
                return found
        raise Changing(errno.EBUSY, "it changes while it is read")

    def _large(self, opened: int, size: int) -> FileHash | None:
        digest = new_hash(self._format)
        digest.update(object_header("blob", size))
        lines, last, binary, left = 0, b"\n", None, size
        for part in _parts(opened, size):
            digest.update(part)
            left -= len(part)
            binary = b"\0" in part[:8000] if binary is None else binary
            lines, last = lines + part.count(b"\n"), part[-1:]
        if left:
            return None  # it became shorter
        total = 0 if binary else lines + (last != b"\n")
        return FileHash(Oid(digest.hexdigest()), size, None, total)


def count_lines(data: bytes) -> int:
    if b"\0" in data[:8000]:
        return 0
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def _read(opened: int, size: int) -> bytes:
    """At most `size` bytes; what there is where it became shorter."""
    return b"".join(_parts(opened, size))


def _parts(opened: int, size: int) -> Iterator[bytes]:
    while size:
        part = os.read(opened, min(size, CHUNK))
        if not part:
            return
        size -= len(part)
        yield part


class BlobPack:
    """One pack of blobs. The number of objects is written into its header at the end."""

    def __init__(self, objects: Path, object_format: str) -> None:
        self._format = object_format
        directory = objects / "pack"
        directory.mkdir(exist_ok=True)
        self._path = directory / f"pack-{os.urandom(20).hex()}.pack"
        self._file = self._path.open("x+b")
        self._file.write(bytes(_HEADER))
        self._entries: list[PackEntry] = []
        self._known: set[Oid] = set()

    def __contains__(self, oid: object) -> bool:
        return oid in self._known

    def add_data(self, oid: Oid, data: bytes) -> None:
        if oid not in self._known:
            start = self._begin(len(data))
            self._end(oid, start, self._put(zlib.compress(data, _LEVEL), self._crc))

    def add_file(self, oid: Oid, opened: int, size: int) -> bool:
        """Whether the opened file still has that content; nothing is added where not."""
        if oid in self._known:
            return True
        os.lseek(opened, 0, os.SEEK_SET)
        digest = new_hash(self._format)
        digest.update(object_header("blob", size))
        start = self._begin(size)
        squeeze, crc = zlib.compressobj(_LEVEL), self._crc
        for part in _parts(opened, size):
            digest.update(part)
            crc = self._put(squeeze.compress(part), crc)
        crc = self._put(squeeze.flush(), crc)
        if digest.hexdigest() != oid:
            self._file.seek(start)
            self._file.truncate()
            return False
        self._end(oid, start, crc)
        return True

    def finish(self) -> None:
        """Writes the header, the trailer and the index; nothing at all where it is empty."""
        if not self._entries:
            self.close()
            self._path.unlink()
            return
        self._file.seek(0)
        self._file.write(b"PACK" + (2).to_bytes(4, "big") + len(self._entries).to_bytes(4, "big"))
        self._file.seek(0)
        digest = new_hash(self._format)
        while part := self._file.read(CHUNK):
            digest.update(part)
        checksum = digest.digest()
        self._file.write(checksum)
        self.close()
        index = encode_index(self._entries, checksum, self._format)
        self._path.with_suffix(".idx").write_bytes(index)

    def close(self) -> None:
        self._file.close()

    def _begin(self, size: int) -> int:
        start, self._crc = self._file.tell(), 0
        header = bytearray()
        byte, size = _BLOB << 4 | size & 15, size >> 4
        while size:
            header.append(byte | 0x80)
            byte, size = size & 0x7F, size >> 7
        header.append(byte)
        self._crc = self._put(bytes(header), 0)
        return start

    def _put(self, data: bytes, crc: int) -> int:
        self._file.write(data)
        return zlib.crc32(data, crc)

    def _end(self, oid: Oid, start: int, crc: int) -> None:
        self._known.add(oid)
        self._entries.append(PackEntry(bytes.fromhex(oid), crc, start))
