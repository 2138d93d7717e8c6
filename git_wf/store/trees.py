"""Trees made from an earlier tree and what changed since: only the directories that it is in."""

from __future__ import annotations

from collections.abc import Mapping

from git_wf.core.names import Oid
from git_wf.errors import StateUnreadable
from git_wf.store.objects import TREE_MODE, Entry, ObjectReader
from git_wf.store.packs import Pack

_REMEMBERED = 20_000  # entries of the trees that are kept in memory

Changes = Mapping[bytes, "Entry | None"]  # path from the top → what it becomes; None: it goes
_Nested = dict[bytes, "Entry | _Nested | None"]
# Name → what it is sorted by, and its bytes in the tree: what did not change is not made again.
_Listing = dict[bytes, tuple[bytes, bytes]]
_DIRECTORY = TREE_MODE.encode() + b" "


class TreeEditor:
    """Remembers the trees that it has read and made: the next edit begins with one of them."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._width = len(reader.repo.null_oid) // 2
        self._known: dict[Oid, _Listing] = {}
        self._entries = 0

    def edit(self, pack: Pack, base: Oid, changes: Changes) -> Oid:
        """The tree that `base` becomes; new trees go into `pack`.

        Of a path and another below it the one that has an entry wins, and replaces what is in its
        way, as in an index. Directories that nothing is left in go. Raises `StateUnreadable`.
        """
        made = self._edit(pack, base, _nested(changes))
        return pack.add("tree", b"") if made is None else made

    def _edit(self, pack: Pack, base: Oid | None, changes: _Nested) -> Oid | None:
        before = self._listing(base) if base else {}
        listing = dict(before)
        for name, change in changes.items():
            below = self._directory(listing.get(name))
            if isinstance(change, dict):
                made = self._edit(pack, below, change)
                if made is not None:
                    listing[name] = _line(name, TREE_MODE, made)
                elif below is not None:
                    del listing[name]
            elif change is not None:
                listing[name] = _line(name, change.mode, change.oid)
            elif below is None:
                listing.pop(name, None)
        if listing == before and base:
            return base
        if not listing:
            return None
        oid = pack.add("tree", b"".join(raw for _, raw in sorted(listing.values())))
        self._remember(oid, listing)
        return oid

    def _directory(self, line: tuple[bytes, bytes] | None) -> Oid | None:
        """The tree that a name stands for, if it is one."""
        if line is None or not line[1].startswith(_DIRECTORY):
            return None
        return Oid(line[1][-self._width :].hex())

    def _listing(self, oid: Oid) -> _Listing:
        if oid not in self._known:
            kind, data = self._reader.read(oid)
            if kind != "tree":
                raise StateUnreadable(f"object '{oid}' is a {kind}, not a tree")
            self._remember(oid, _listed(data, self._width))
        return self._known[oid]

    def _remember(self, oid: Oid, listing: _Listing) -> None:
        if oid in self._known:
            return
        self._known[oid] = listing
        self._entries += len(listing)
        while self._entries > _REMEMBERED and len(self._known) > 1:
            oldest = next(iter(self._known))  # in the order in which they came
            self._entries -= len(self._known.pop(oldest))


def _listed(data: bytes, width: int) -> _Listing:
    """Raises `StateUnreadable` where `data` is no tree object."""
    listing: _Listing = {}
    at = 0
    try:
        while at < len(data):
            space = data.index(b" ", at)
            nul = data.index(b"\0", space)
            name, end = data[space + 1 : nul], nul + 1 + width
            if end > len(data):
                raise ValueError("cut off")
            raw = data[at:end].lstrip(b"0")  # some old programs wrote modes of six digits
            listing[name] = (name + b"/" if raw.startswith(_DIRECTORY) else name, raw)
            at = end
    except ValueError as err:
        raise StateUnreadable(f"read tree: not a tree object: {err}") from err
    return listing


def _line(name: bytes, mode: str, oid: Oid) -> tuple[bytes, bytes]:
    raw = b"%b %b\0%b" % (mode.encode(), name, bytes.fromhex(oid))
    return (name + b"/" if mode == TREE_MODE else name, raw)


def _nested(changes: Changes) -> _Nested:
    """Changes by directory. A path that goes gives way to what comes below it."""
    top: _Nested = {}
    for path in sorted(changes):
        here: _Nested | None = top
        *directories, name = path.split(b"/")
        for directory in directories:
            assert here is not None, path
            below = here.setdefault(directory, {})
            if below is None and changes[path] is not None:
                below = here[directory] = {}
            if not isinstance(below, dict):
                here = None  # below what has an entry, or goes
                break
            here = below
        if here is not None:
            here[name] = changes[path]
    return top
