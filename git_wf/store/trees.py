"""Trees made from an earlier tree and what changed since: only the directories that it is in."""

from __future__ import annotations

from collections.abc import Mapping

from git_wf.core.names import Oid
from git_wf.store.objects import TREE_MODE, Entry, ObjectReader, Tree, encode_tree
from git_wf.store.packs import Pack

_REMEMBERED = 20_000  # entries of the trees that are kept in memory

Changes = Mapping[bytes, "Entry | None"]  # path from the top → what it becomes; None: it goes
_Nested = dict[bytes, "Entry | _Nested | None"]


class TreeEditor:
    """Remembers the trees that it has read and made: the next edit begins with one of them."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._known: dict[Oid, Tree] = {}
        self._entries = 0

    def edit(self, pack: Pack, base: Oid, changes: Changes) -> Oid:
        """The tree that `base` becomes; new trees go into `pack`.

        Of a path and another below it the one that has an entry wins, and replaces what is in its
        way, as in an index. Directories that nothing is left in go.
        """
        made = self._edit(pack, base, _nested(changes))
        return pack.add("tree", b"") if made is None else made

    def _edit(self, pack: Pack, base: Oid | None, changes: _Nested) -> Oid | None:
        before = self._tree(base) if base else {}
        tree = dict(before)
        for name, change in changes.items():
            was = tree.get(name)
            if isinstance(change, dict):
                below = was.oid if was is not None and was.kind == "tree" else None
                made = self._edit(pack, below, change)
                change = Entry(TREE_MODE, made) if made is not None else None
                if change is None and below is None:
                    continue  # nothing there, and what is at the name itself is no directory
            elif change is None and was is not None and was.kind == "tree":
                continue
            if change is None:
                tree.pop(name, None)
            else:
                tree[name] = change
        if tree == before and base:
            return base
        if not tree:
            return None
        oid = pack.add("tree", encode_tree(tree, pack.repo.object_format))
        self._remember(oid, tree)
        return oid

    def _tree(self, oid: Oid) -> Tree:
        if oid not in self._known:
            self._remember(oid, self._reader.read_tree(oid))
        return self._known[oid]

    def _remember(self, oid: Oid, tree: Tree) -> None:
        if oid in self._known:
            return
        self._known[oid] = tree
        self._entries += len(tree)
        while self._entries > _REMEMBERED and len(self._known) > 1:
            oldest = next(iter(self._known))  # in the order in which they came
            self._entries -= len(self._known.pop(oldest))


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
