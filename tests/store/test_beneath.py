from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_wf.store import beneath
from git_wf.store.beneath import Beneath, is_absent


def test_nothing_is_reached_through_a_symlink(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    top = tmp_path / "top"
    top.mkdir()
    (top / "d").symlink_to(outside)
    (top / "l").symlink_to(outside / "f")
    with Beneath(top) as place:
        acts = [
            lambda: place.lstat(b"d/f"), lambda: place.open_file(b"d/f"),
            lambda: place.open_file(b"l"), lambda: place.names(b"d"),
            lambda: place.unlink(b"d/f"), lambda: place.make_directories(b"d/x"),
            lambda: place.chmod(b"d/f", 0o777), lambda: place.chmod(b"l", 0o777),
        ]  # fmt: skip
        for act in acts:
            with pytest.raises(OSError):
                act()
        assert place.find(b"d/f") is None and place.find(b"gone") is None
        assert place.readlink(b"d") == os.fsencode(outside)
    assert (outside / "f").read_text() == "precious" and os.listdir(outside) == ["f"]


def test_directories_are_made_listed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beneath, "_OPEN", 2)
    with Beneath(tmp_path) as place:
        for path in (b"a/b/c", b"a/d", b"e"):
            place.make_directories(path)
        assert sorted(place.names(b"")) == [(b"a", True), (b"e", True)]
        assert sorted(place.names(b"a")) == [(b"b", True), (b"d", True)]
        assert not place.rmdir(b"a")
        assert place.rmdir(b"a/b/c") and place.rmdir(b"a/b")
        (tmp_path / "new").write_text("x")
        place.replace(os.fspath(tmp_path / "new"), b"a/d/f")
        place.chmod(b"a/d/f", 0o600)
        assert place.lstat(b"a/d/f").st_mode & 0o777 == 0o600
        place.forget()
        place.unlink(b"a/d/f")
        with pytest.raises(FileNotFoundError) as err:
            place.lstat(b"a/d/f")
        assert is_absent(err.value) and place.is_writable(b"a/d")


def test_a_fifo_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    with Beneath(tmp_path) as place, pytest.raises(FileNotFoundError):
        place.open_file(b"p")
