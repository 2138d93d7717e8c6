"""How new objects get into the repository: in one pack, kept until the refs name them.

Loose objects that nothing refers to yet can go at any moment, when somebody's `git gc` runs. So
the objects of an operation are written as one pack with a `.keep` beside it, then the refs move,
then the `.keep` goes. What git itself writes for us goes to a quarantine, and from there into the
pack. Unfinished files are in `objects/wf-tmp/<pid>-…`, where gc does not look: it removes
`objects/tmp_*` even while it is being written. Each directory there is locked by its owner, and
those of dead owners are removed by the next one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from git_wf.core.names import Oid
from git_wf.errors import GitFailed, StateUnreadable
from git_wf.store.files import is_locked, remove_tree, sync_directory
from git_wf.store.objects import (
    CHUNK,
    ObjectReader,
    Tree,
    decode_tree,
    hash_object,
    new_hash,
    object_header,
)
from git_wf.store.repo import Repo

KEEP_WORD = b"git-wf: its refs are about to move\n"
_MAX_TAKEN_IN = 2 << 20  # bytes; a larger pack that git wrote is moved as it is
MAX_CONSOLIDATED = 64 << 20  # bytes; a larger pack is left as it is
_KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_STALE = 60.0  # seconds before an unlocked directory in `wf-tmp` is nobody's
_FULL = (10, 5, 8)  # packs that are put together: new ones, joined ones, folded ones
_LEAST_COMPRESSED = b"\x78\x01"  # how such a zlib stream begins
_INDEX_MAGIC = b"\xfftOc"


class PackEntry(NamedTuple):
    """Where an object is in a pack: its id, the CRC-32 of its bytes there, and its offset."""

    oid: bytes
    crc: int
    offset: int


def encode_index(entries: Iterable[PackEntry], checksum: bytes, object_format: str) -> bytes:
    """The index (version 2) of a pack whose trailer is `checksum`."""
    ordered = sorted(entries)
    fan = [0] * 256
    for entry in ordered:
        fan[entry.oid[0]] += 1
    for byte in range(1, 256):
        fan[byte] += fan[byte - 1]
    offsets: list[int] = []
    large: list[int] = []
    for entry in ordered:
        if entry.offset < 1 << 31:
            offsets.append(entry.offset)
        else:
            offsets.append(1 << 31 | len(large))
            large.append(entry.offset)
    count = len(ordered)
    data = b"".join((
        _INDEX_MAGIC,
        struct.pack(">I256I", 2, *fan),
        *(entry.oid for entry in ordered),
        struct.pack(f">{count}I", *(entry.crc for entry in ordered)),
        struct.pack(f">{count}I", *offsets),
        struct.pack(f">{len(large)}Q", *large),
        checksum,
    ))  # fmt: skip
    digest = new_hash(object_format)
    digest.update(data)
    return data + bytes(digest.digest())


def index_oids(data: bytes, object_format: str) -> list[Oid]:
    """The ids in a pack's index, of version 1 or 2, in order."""
    width = new_hash(object_format).digest_size
    at, step = (8 + 1024, width) if data.startswith(_INDEX_MAGIC) else (1024 + 4, width + 4)
    fan = 8 if data.startswith(_INDEX_MAGIC) else 0
    (count,) = struct.unpack_from(">I", data, fan + 1020)
    starts = range(at, at + count * step, step)
    return [Oid(data[start : start + width].hex()) for start in starts]


def packed_objects(pack: bytes, index: bytes, object_format: str) -> dict[Oid, bytes] | None:
    """The bytes of each object in a pack, by a version 2 index.

    None where some are deltas, or not what the index says.
    """
    if not index.startswith(_INDEX_MAGIC):
        return None
    width = new_hash(object_format).digest_size
    oids = index_oids(index, object_format)
    count = len(oids)
    told = struct.unpack_from(f">{2 * count}I", index, 8 + 1024 + count * width)
    ordered = sorted(zip(told[count:], told[:count], oids, strict=True))  # offset, CRC-32, id
    ends = [*(offset for offset, _, _ in ordered[1:]), len(pack) - width]
    found = {}
    for (start, crc, oid), end in zip(ordered, ends, strict=True):
        data = pack[start:end]
        if not data or zlib.crc32(data) != crc or data[0] >> 4 & 7 not in _KINDS.values():
            return None
        found[oid] = data
    return found


class _PackFile:
    """A pack that is being written. An object is begun, given in parts, and ended."""

    def __init__(self, path: Path, count: int, object_format: str) -> None:
        self.entries: list[PackEntry] = []
        self.object_format = object_format
        self._file = path.open("xb")
        self._digest = new_hash(object_format)
        self._offset = 0
        self._crc = 0
        self._put(struct.pack(">4sII", b"PACK", 2, count))

    def add(self, kind: str, size: int, oid: Oid, give: Callable[[_Take], object]) -> None:
        """An object whose content `give` hands over in parts. Raises `OSError` if it is another."""
        start, self._crc = self._offset, 0
        self._put(_entry_header(_KINDS[kind], size))
        squeeze = zlib.compressobj()
        found = new_hash(self.object_format)
        found.update(object_header(kind, size))

        def take(part: bytes) -> None:
            found.update(part)
            self._put(squeeze.compress(part))

        give(take)
        self._put(squeeze.flush())
        if found.hexdigest() != oid:
            raise OSError(errno.EIO, f"object {oid} is damaged")
        self.entries.append(PackEntry(bytes.fromhex(oid), self._crc, start))

    def add_packed(self, oid: Oid, data: bytes) -> None:
        """An object as another pack has it, which is no delta."""
        start, self._crc = self._offset, 0
        self._put(data)
        self.entries.append(PackEntry(bytes.fromhex(oid), self._crc, start))

    def finish(self, durable: bool) -> bytes:
        """Ends the pack. Its checksum."""
        checksum = bytes(self._digest.digest())
        self._put(checksum)
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())
        self._file.close()
        return checksum

    def close(self) -> None:
        self._file.close()

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._crc = zlib.crc32(data, self._crc)
        self._offset += len(data)


_Take = Callable[[bytes], object]


def _entry_header(code: int, size: int) -> bytes:
    """Kind and size of an object in a pack: four bits of size, then seven a byte."""
    header = bytearray()
    byte, size = code << 4 | size & 15, size >> 4
    while size:
        header.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    header.append(byte)
    return bytes(header)


# Where the content of an object comes from when the pack is written.


@dataclass(frozen=True)
class _InMemory:
    kind: str
    data: bytes

    def write(self, pack: _PackFile, oid: Oid) -> None:
        pack.add(self.kind, len(self.data), oid, lambda take: take(self.data))


@dataclass(frozen=True)
class _Loose:
    path: Path

    def write(self, pack: _PackFile, oid: Oid) -> None:
        parts = self.parts()
        kind, size, first = _split_header(next(parts, b""), oid)

        def give(take: _Take) -> None:
            take(first)
            for part in parts:
                take(part)

        pack.add(kind, size, oid, give)

    def parts(self) -> Iterator[bytes]:
        """The inflated file, a bounded part at a time; the header is whole in the first."""
        inflate = zlib.decompressobj()
        try:
            with self.path.open("rb") as file:
                while raw := file.read(CHUNK):
                    while raw:
                        yield inflate.decompress(raw, CHUNK)
                        raw = inflate.unconsumed_tail
                yield inflate.flush()
        except zlib.error as err:
            raise OSError(errno.EIO, f"object file {self.path.name} is damaged: {err}") from err


@dataclass(frozen=True)
class _Packed:
    """Bytes of an object as a pack of git's has them."""

    data: bytes

    def write(self, pack: _PackFile, oid: Oid) -> None:
        pack.add_packed(oid, self.data)


def _stored(data: bytes) -> _InMemory | None:
    """An object that a pack has without compressing it, to be compressed here; else None."""
    kind, start = data[0] >> 4 & 7, 1
    while data[start - 1] & 0x80:
        start += 1
    if data[start : start + 2] != _LEAST_COMPRESSED:
        return None
    names = {code: name for name, code in _KINDS.items()}
    return _InMemory(names[kind], zlib.decompress(data[start:]))


@dataclass(frozen=True)
class _Existing:
    reader: ObjectReader
    kind: str
    size: int

    def write(self, pack: _PackFile, oid: Oid) -> None:
        pack.add(self.kind, self.size, oid, lambda take: self.reader.stream(oid, take))


def _split_header(first: bytes, oid: Oid) -> tuple[str, int, bytes]:
    header, nul, rest = first.partition(b"\0")
    kind, _, size = header.decode("ascii", "replace").partition(" ")
    if not nul or kind not in _KINDS or not size.isdecimal():
        raise OSError(errno.EIO, f"object {oid} is damaged")
    return kind, int(size), rest


class KeptPack:
    """Packs that gc leaves alone until `release`.

    `path` is the one made here; `paths` also has those that git wrote whole (big files).
    """

    def __init__(self) -> None:
        self.paths: tuple[Path, ...] = ()
        self._keeps: list[tuple[Path, int]] = []

    @property
    def path(self) -> Path:
        return self.paths[0]

    def release(self) -> None:
        """To be called when the refs have moved, or will not."""
        while self._keeps:
            keep, opened = self._keeps.pop()
            with suppress(FileNotFoundError):
                keep.unlink()
            os.close(opened)

    def __enter__(self) -> KeptPack:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _install(self, scratch: Path, stem: str, target: Path, mode: int) -> None:
        """Moves `<stem>.pack` and what belongs to it from `scratch` to `target` (no suffix)."""
        keep = scratch / f"{stem}.keep"
        opened = os.open(keep, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(opened, KEEP_WORD)
            os.fchmod(opened, mode)
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # tells a live keep from a stale one
            keep.rename(target.with_suffix(".keep"))
        except BaseException:
            os.close(opened)
            raise
        self._keeps.append((target.with_suffix(".keep"), opened))
        # git finds a pack by its index, so that comes last.
        for suffix in (".pack", ".rev", ".idx"):
            made = scratch / f"{stem}{suffix}"
            if suffix != ".rev" or made.exists():
                made.chmod(mode)
                made.rename(target.with_suffix(suffix))
        self.paths += (target.with_suffix(".pack"),)


class Pack:
    """Collects new objects, and writes them as one pack.

    A lasting one keeps its directory from one pack to the next, until it is closed.
    """

    def __init__(self, repo: Repo, *, lasting: bool = False) -> None:
        self.repo = repo
        self._is_lasting = lasting
        self._own: _Scratch | None = None
        self._sources: dict[Oid, _InMemory | _Loose | _Packed | _Existing] = {}
        self._moved: dict[Path, frozenset[Oid]] = {}  # packs that git wrote → what is in them
        self._scratches: list[_Scratch] = []
        self._quarantine: Quarantine | None = None

    def __contains__(self, oid: object) -> bool:
        return oid in self._sources or any(oid in oids for oids in self._moved.values())

    def __len__(self) -> int:
        return len(self._sources) + sum(len(oids) for oids in self._moved.values())

    def add(self, kind: str, data: bytes) -> Oid:
        oid = hash_object(kind, data, self.repo.object_format)
        if oid not in self:
            self._sources[oid] = _InMemory(kind, data)
        return oid

    def quarantine(self) -> Quarantine:
        """Where git writes for this pack; `take_in` then takes it over. It goes with the pack."""
        if self._quarantine is None:
            path = self._scratch().path / "objects"
            path.mkdir(0o700, exist_ok=True)
            self._quarantine = _quarantine_at(self.repo, path)
        return self._quarantine

    def take_in(self) -> None:
        """Takes over what git has written into the quarantine."""
        if self._quarantine is not None:
            self._take_over(self._quarantine.path)

    def add_quarantine(self, directory: Path) -> None:
        """Takes over all objects below a quarantine's object directory, which goes empty."""
        scratch = _Scratch(self.repo)
        self._scratches.append(scratch)
        objects = scratch.path / "objects"
        directory.rename(objects)
        directory.mkdir(0o700)
        self._take_over(objects)

    def _scratch(self) -> _Scratch:
        if self._own is None or not self._own.path.is_dir():
            self._own = _Scratch(self.repo)
        return self._own

    def _take_over(self, objects: Path) -> None:
        for index in sorted(objects.glob("pack/pack-*.idx")):
            self._take_pack(index.with_suffix(".pack"))
        for fan in sorted(objects.glob("[0-9a-f][0-9a-f]")):
            for path in sorted(fan.iterdir()):
                oid = Oid(fan.name + path.name)
                if len(oid) == len(self.repo.null_oid) and oid not in self:
                    self._sources[oid] = _Loose(path)

    def _take_pack(self, pack: Path) -> None:
        """A small one becomes part of this pack, a big one is moved as it is."""
        index = pack.with_suffix(".idx").read_bytes()
        if pack.stat().st_size <= _MAX_TAKEN_IN:
            found = packed_objects(pack.read_bytes(), index, self.repo.object_format)
            if found is not None:
                for oid, data in found.items():
                    self._sources[oid] = _stored(data) or _Packed(data)
                return
        self._moved[pack] = frozenset(index_oids(index, self.repo.object_format))

    def add_existing(self, reader: ObjectReader, oids: Iterable[Oid]) -> None:
        """Takes in objects that the repository has, but that nothing may refer to."""
        for oid in oids:
            if oid in self:
                continue
            with _reading():
                info = reader.require(oid)
            self._sources[oid] = _Existing(reader, info.kind, info.size)

    def complete(self, reader: ObjectReader, new: Oid, old: Oid | None) -> None:
        """Takes in what tree `new` has, and neither this pack nor tree `old`.

        Git does not write again what it has, even where nothing refers to it and a gc may take it
        before our refs move. Only directories that differ are read.
        """
        to_do: list[tuple[Oid, Oid | None]] = [(new, old)]
        seen: set[Oid] = set()
        while to_do:
            new, old = to_do.pop()
            if new == old or new in seen:
                continue
            seen.add(new)
            with _reading():
                before = reader.read_tree(old) if old else {}
            known = {entry.oid for entry in before.values()}
            fresh = {
                name: entry
                for name, entry in self._tree(reader, new).items()
                if entry.oid not in known and entry.kind != "commit"
            }
            self.add_existing(reader, [new, *(entry.oid for entry in fresh.values())])
            for name, entry in fresh.items():
                if entry.kind == "tree":
                    was = before.get(name)
                    to_do.append((entry.oid, was.oid if was and was.kind == "tree" else None))

    def _tree(self, reader: ObjectReader, oid: Oid) -> Tree:
        source = self._sources.get(oid)
        if isinstance(source, _InMemory):
            data = source.data
        elif isinstance(source, _Loose):
            _, _, data = _split_header(b"".join(source.parts()), oid)
        elif isinstance(source, _Packed) or any(oid in oids for oids in self._moved.values()):
            return {}  # git writes packs of files only
        else:
            with _reading():
                return reader.read_tree(oid)
        return decode_tree(data, self.repo.object_format)

    def write(self, *, durable: bool = False) -> KeptPack | None:
        """The pack, in place and kept; None where there was nothing to write.

        The caller releases it after the refs have moved. With `durable` it survives a power cut.
        Raises `OSError` and `GitFailed`; then nothing is left behind, and the pack is empty.
        """
        directory = self.repo.objects_dir / "pack"
        directory.mkdir(exist_ok=True)
        kept = KeptPack()
        try:
            if self._sources:
                self._write_sources(kept, directory, durable)
            for moved in self._moved:
                if durable:
                    _sync(moved)
                kept._install(moved.parent, moved.stem, self._target(directory), self._mode())
            if durable:
                sync_directory(directory)
        except BaseException:
            kept.release()
            raise
        finally:
            self.discard()
        return kept if kept.paths else None

    def discard(self) -> None:
        """Forgets everything that was added."""
        self._sources.clear()
        self._moved.clear()
        self._quarantine = None
        while self._scratches:
            self._scratches.pop().close()
        if self._own is None:
            return
        if self._is_lasting:
            self._own.clear()
        else:
            self.close()

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None

    def _write_sources(self, kept: KeptPack, directory: Path, durable: bool) -> None:
        scratch = self._scratch()
        made = scratch.path / "new.pack"
        pack = _PackFile(made, len(self._sources), self.repo.object_format)
        try:
            for oid, source in self._sources.items():
                with _reading():
                    source.write(pack, oid)
            checksum = pack.finish(durable)
        finally:
            pack.close()
        index = made.with_suffix(".idx")
        index.write_bytes(encode_index(pack.entries, checksum, self.repo.object_format))
        if durable:
            _sync(index)
        kept._install(scratch.path, "new", self._target(directory), self._mode())

    def _target(self, directory: Path) -> Path:
        """A name of its own, so that no other process keeps, folds or removes the same pack."""
        digest = new_hash(self.repo.object_format)
        digest.update(os.urandom(32))
        return directory / f"pack-{digest.hexdigest()}"

    def _mode(self) -> int:
        """Read-only, for whom the object directory is readable (core.sharedRepository)."""
        return 0o400 | self.repo.objects_dir.stat().st_mode & 0o044


@contextmanager
def _reading() -> Iterator[None]:
    """An object that went missing while we write is a failed write, not an unreadable record."""
    try:
        yield
    except StateUnreadable as err:
        raise GitFailed(["git", "cat-file"], 128, err.message) from err


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


class _Scratch:
    """A directory in `objects/wf-tmp`, which goes with its owner or soon after."""

    def __init__(self, repo: Repo) -> None:
        root = repo.objects_dir / "wf-tmp"
        root.mkdir(exist_ok=True)
        _remove_stale(root)
        self.path = root / f"{os.getpid()}-{os.urandom(6).hex()}"
        self.path.mkdir(0o700)
        self._opened = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._finish = weakref.finalize(self, _end_scratch, self.path, self._opened)

    def clear(self) -> None:
        """Removes all that is in it but the directories that are made every time."""
        _remove_files(self.path, ("objects", "pack"))

    def close(self) -> None:
        self._finish()


def _end_scratch(path: Path, opened: int) -> None:
    with suppress(OSError):  # where nothing can be written; it is nobody's from now on
        remove_tree(path)
    os.close(opened)


def _remove_files(directory: Path, kept: Sequence[str]) -> None:
    """Empties a directory; the first of `kept` in it stays and is emptied in the same way."""
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(directory)):
            if kept and entry.name == kept[0]:
                _remove_files(directory / entry.name, kept[1:])
            elif entry.is_dir(follow_symlinks=False):
                remove_tree(directory / entry.name)
            else:
                os.unlink(entry.path)


def _remove_stale(root: Path) -> None:
    """Removes what dead processes left; never one that was made just now and is not locked yet."""
    newest = time.time() - _STALE
    for path in root.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < newest and not is_locked(path):
                remove_tree(path)


@dataclass(frozen=True)
class Quarantine:
    """An object directory of its own for git calls: run them with `env`, then take `path` over."""

    path: Path
    env: Mapping[str, str]


@contextmanager
def quarantine(repo: Repo) -> Iterator[Quarantine]:
    """Git calls with `env` see all objects and write none into the repository."""
    scratch = _Scratch(repo)
    try:
        path = scratch.path / "objects"
        path.mkdir(0o700)
        yield _quarantine_at(repo, path)
    finally:
        scratch.close()


def _quarantine_at(repo: Repo, path: Path) -> Quarantine:
    return Quarantine(
        path,
        {
            "GIT_OBJECT_DIRECTORY": os.fspath(path),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(
                _quoted(os.fspath(place)) for place in _object_directories(repo)
            ),
        },
    )


def _object_directories(repo: Repo) -> list[Path]:
    """Where the repository's objects are; what it borrows from comes first.

    Git follows alternates only so deep, and from a quarantine they are one deeper.
    """
    try:
        told = (repo.objects_dir / "info" / "alternates").read_bytes()
    except OSError:
        return [repo.objects_dir]
    # One that is quoted is left to git, which finds it by itself.
    lines = [line for line in os.fsdecode(told).split("\n") if line and line[0] not in '#"']
    return [*(repo.objects_dir / line for line in lines), repo.objects_dir]


def _quoted(path: str) -> str:
    """A path as git takes it in a list of alternates, which is split at colons."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def release_stale_keeps(repo: Repo) -> list[Path]:
    """Removes the `.keep` files of ours whose owner died, so that gc packs again what is there."""
    removed = []
    for keep in sorted((repo.objects_dir / "pack").glob("pack-*.keep")):
        with suppress(FileNotFoundError, PermissionError):
            if keep.read_bytes() == KEEP_WORD and not is_locked(keep):
                keep.unlink()
                removed.append(keep)
    return removed


class SmallPacks:
    """The packs that a live run has made, put together again and again: many make git slow.

    A few new ones are joined as they are, a few of those are folded by git, and a few of what that
    makes once more: so each object is touched a few times, however long the run.
    """

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self._tiers: list[list[Path]] = [[]]  # new, joined, folded once, twice, …

    def add(self, *packs: Path) -> None:
        self._tiers[0] += packs
        for tier in range(len(self._tiers)):
            if len(self._tiers[tier]) >= _FULL[min(tier, len(_FULL) - 1)]:
                self._put_together(tier)

    def take(self) -> list[Path]:
        """Those that were not folded yet, for another who will."""
        packs = [path for tier in self._tiers[:2] for path in tier]
        self._tiers[:2] = [[] for _ in self._tiers[:2]]
        return packs

    def finish(self) -> None:
        """Folds what is left."""
        consolidate(self.repo, self.take())

    def _put_together(self, tier: int) -> None:
        packs, self._tiers[tier] = self._tiers[tier], []
        left = join(self.repo, packs) if tier == 0 else consolidate(self.repo, packs)
        if len(left) == 1:  # else git's own maintenance sees to them
            if tier + 1 == len(self._tiers):
                self._tiers.append([])
            self._tiers[tier + 1] += left


def join(repo: Repo, packs: Sequence[Path]) -> tuple[Path, ...]:
    """Puts small packs of ours into one, object by object as they are, without a process.

    Best effort, as `consolidate`.
    """
    try:
        if not _may_fold(repo, packs):
            return tuple(packs)
        joined = Pack(repo)
        for path in packs:
            joined._take_pack(path)
        if joined._moved:
            joined.discard()
            return tuple(packs)
        return _replaced(joined, packs)
    except (OSError, GitFailed, struct.error):
        return tuple(path for path in packs if path.exists())


def _may_fold(repo: Repo, packs: Sequence[Path]) -> bool:
    """A multi-pack-index names packs, and git's own maintenance folds them."""
    is_named = (repo.objects_dir / "pack" / "multi-pack-index").exists()
    return len(packs) > 1 and not is_named and all(_is_foldable(path) for path in packs)


def _replaced(made: Pack, packs: Sequence[Path]) -> tuple[Path, ...]:
    """Writes a pack that has all that is in `packs`, and removes those."""
    kept = made.write()
    assert kept is not None, packs
    with kept:
        for path in packs:
            for suffix in (".idx", ".rev", ".bitmap", ".pack"):
                path.with_suffix(suffix).unlink(missing_ok=True)
    return (kept.path,)


def consolidate(repo: Repo, packs: Sequence[Path]) -> tuple[Path, ...]:
    """Folds small packs of ours into one, and removes them when that one is complete.

    Best effort: whatever goes wrong, the objects are still there. Returns the packs that are left
    of `packs`, the new one among them: what a later call may fold again.
    """
    try:
        left = tuple(path for path in packs if _is_foldable(path))
        if not _may_fold(repo, left):
            return left
        return _fold(repo, left)
    except (OSError, GitFailed):
        return tuple(path for path in packs if path.exists())


def _is_foldable(path: Path) -> bool:
    try:
        small = path.stat().st_size <= MAX_CONSOLIDATED
    except FileNotFoundError:
        return False  # gc was here
    return small and path.with_suffix(".idx").exists() and not path.with_suffix(".keep").exists()


def _fold(repo: Repo, packs: tuple[Path, ...]) -> tuple[Path, ...]:
    scratch = _Scratch(repo)
    try:
        wanted = {oid for path in packs for oid in _oids_of(path, repo)}
        repo.git(
            "-c", "pack.packSizeLimit=0", "-c", "pack.threads=1",
            "pack-objects", "--stdin-packs", "-q", "--index-version=2",
            os.fspath(scratch.path / "pack"),
            stdin="".join(f"{path.name}\n" for path in packs).encode(),
        )  # fmt: skip
        (made,) = scratch.path.glob("pack-*.pack")
        if not wanted <= set(_oids_of(made, repo)):
            return packs
        owner = Pack(repo)
        owner._moved[made] = frozenset()
        return _replaced(owner, packs)
    finally:
        scratch.close()


def _oids_of(pack: Path, repo: Repo) -> list[Oid]:
    return index_oids(pack.with_suffix(".idx").read_bytes(), repo.object_format)
