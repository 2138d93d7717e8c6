from __future__ import annotations

import pytest

from git_wf.core.names import Names, Oid, RefName, RunId, ulid
from git_wf.errors import StateUnreadable
from git_wf.store.archive import (
    Archive,
    ArchivedRun,
    archive_message,
    archive_parents,
    entry_tree,
    is_archive_commit,
    with_entries,
)
from git_wf.store.objects import Commit, ObjectReader, encode_tree
from git_wf.store.packs import Pack
from git_wf.store.repo import Repo
from tests.conftest import git

NAMES = Names()
RUNS = [RunId(ulid(number, bytes(10))) for number in (1, 2)]


def made(repo: Repo, contents: dict[RunId, bytes]) -> Archive:
    """An archive of entries as they are."""
    pack, added = Pack(repo), {}
    for run, data in contents.items():
        tree = encode_tree(entry_tree(pack.add("blob", data)), repo.object_format)
        added[run] = pack.add("tree", tree)
    root = pack.add("tree", encode_tree(with_entries({}, added), repo.object_format))
    kept = pack.write()
    assert kept is not None
    kept.release()
    message = archive_message(NAMES, "archive", ulid(9, bytes(10)), len(added))
    tip = Oid(git("commit-tree", root, "-m", message, cwd=repo.git_dir))
    with ObjectReader(repo) as reader:
        assert is_archive_commit(NAMES, reader.read_commit(tip))
        return Archive.read(reader, NAMES, tip)


def test_entries_come_back(opened: Repo) -> None:
    refs = {RefName("refs/wf/meta/x"): Oid("1" * 40)}
    entries = {run: ArchivedRun(run, ulid(3, bytes(10)), refs, {"status": "fail"}) for run in RUNS}
    archive = made(opened, {run: entry.encode() for run, entry in entries.items()})
    assert archive.runs == RUNS
    assert RUNS[0] in archive and "nothing" not in archive
    with ObjectReader(opened) as reader:
        assert archive.entries(reader) == entries
        assert archive.entry(reader, RUNS[1]) == entries[RUNS[1]]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "not valid JSON"),
        (b"{}", "'refs' or 'summary' is missing"),
        (b'{"format": 2}', "format 2 is newer than this git-wf knows (1)"),
    ],
)
def test_one_that_cannot_be_read_hides_no_other(opened: Repo, data: bytes, told: str) -> None:
    whole = ArchivedRun(RUNS[0], "", {}, {})
    archive = made(opened, {RUNS[0]: whole.encode(), RUNS[1]: data})
    with ObjectReader(opened) as reader:
        found = archive.entries(reader)
        bad = found[RUNS[1]]
        assert found[RUNS[0]] == whole and isinstance(bad, StateUnreadable) and told in bad.message
        with pytest.raises(StateUnreadable):
            archive.entry(reader, RUNS[1])


def test_without_an_archive(opened: Repo) -> None:
    with ObjectReader(opened) as reader:
        archive = Archive.read(reader, NAMES, None)
        assert (archive.runs, archive.entries(reader)) == ([], {})


def test_no_parent_twice() -> None:
    one, two = Oid("1" * 40), Oid("2" * 40)
    assert archive_parents(None, [two, one, two]) == (two, one)
    assert archive_parents(one, [two, one]) == (one, two)
    assert not is_archive_commit(NAMES, Commit(one, (), "", "", "undo x\n\nWF-Run: y\n"))
