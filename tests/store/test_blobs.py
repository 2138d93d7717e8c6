from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_wf.store import blobs
from git_wf.store.blobs import BlobPack, Hasher, count_lines
from tests.conftest import git

CONTENTS = [b"", b"a", b"a\n", b"\0\1", b"x" * 15, b"y" * 16, b"line\n" * 9000, os.urandom(3000)]


def test_a_pack_that_git_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", "--bare", ".", cwd=tmp_path)
    monkeypatch.setattr(blobs, "_SMALL", 100)
    hasher, pack = Hasher("sha1"), BlobPack(tmp_path / "objects", "sha1")
    made = []
    for data in CONTENTS:
        file = tmp_path / "file"
        file.write_bytes(data)
        with file.open("rb") as opened:
            found = hasher.file(opened.fileno())
            assert (found.size, found.data is None) == (len(data), len(data) > 100)
            if found.data is not None:
                pack.add_data(found.oid, found.data)
            assert pack.add_file(found.oid, opened.fileno(), found.size)
            assert pack.add_file(found.oid, opened.fileno(), found.size)  # it is there by now
        made.append(found.oid)
    pack.finish()
    git("fsck", "--full", "--strict", cwd=tmp_path)
    for oid, data in zip(made, CONTENTS, strict=True):
        assert oid == git("hash-object", "--stdin", cwd=tmp_path, stdin=data)
        assert git("cat-file", "-s", oid, cwd=tmp_path) == str(len(data))


def test_a_file_that_is_another_by_now(tmp_path: Path) -> None:
    hasher, pack = Hasher("sha1"), BlobPack(tmp_path, "sha1")
    file = tmp_path / "file"
    file.write_bytes(b"one")
    oid = hasher.data(b"two").oid
    with file.open("rb") as opened:
        assert not pack.add_file(oid, opened.fileno(), 3)
    assert oid not in pack
    pack.finish()
    assert list((tmp_path / "pack").iterdir()) == []


def test_only_so_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_HELD", 5)
    hasher = Hasher("sha1")
    assert [hasher.data(b"abc").data, hasher.data(b"def").data, hasher.data(b"gh").data] == [
        b"abc", None, b"gh",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\0\n\n", 0)]
)
def test_lines_as_git_counts_them(data: bytes, lines: int) -> None:
    assert count_lines(data) == lines
