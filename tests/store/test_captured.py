"""An index that is written here is one that git reads, and the other way round."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from git_wf.store.captured import (
    NOWHERE,
    CapturedIndex,
    Look,
    NotKnown,
    Record,
    git_mode,
    noted_tree,
)
from git_wf.store.objects import Entry
from tests.conftest import git

OID = "ce013625030ba8dba906f756967f9e9ca394464a"  # of `hello`


def listed(path: Path, cwd: Path) -> list[str]:
    env = {**os.environ, "GIT_INDEX_FILE": os.fspath(path)}
    command = ["git", "-c", "core.quotePath=false", "ls-files", "-s", "-z"]
    told = subprocess.run(command, cwd=cwd, env=env, capture_output=True, check=True).stdout
    return os.fsdecode(told).split("\0")[:-1]


def record(mode: str = "100644") -> Record:
    return Record(Entry(mode, OID), Look(1_500_000_001, 2_000_000_003, 4, 5), False)


def name(dice: random.Random) -> bytes:
    parts = [bytes(dice.choice(b"ab.-\xff") for _ in range(dice.choice((1, 3, 9))))]
    return b"d/" + parts[0] + b"x" if dice.random() < 0.5 else parts[0] + b"y"


@pytest.mark.parametrize("seed", range(5))
def test_edits_are_what_git_reads(repo: Path, seed: int) -> None:
    dice = random.Random(seed)
    index = CapturedIndex.empty("sha1")
    wanted: dict[bytes, Record] = {}
    for _ in range(20):
        changes = {name(dice): dice.choice((record(), record("120000"), None)) for _ in range(6)}
        index = index.edited(changes)
        wanted.update({key: value for key, value in changes.items() if value is not None})
        for key, value in changes.items():
            if value is None:
                wanted.pop(key, None)
    path = repo / "index"
    path.write_bytes(index.encode())
    assert listed(path, repo) == [
        f"{wanted[key].entry.mode} {OID} 0\t{os.fsdecode(key)}" for key in sorted(wanted)
    ]
    for starts in (index.starts.tobytes(), b""):
        again = CapturedIndex.read(path.read_bytes(), "sha1", starts)
        assert list(again.names()) == sorted(wanted)
    assert CapturedIndex.of_records(wanted, "sha1").encode() == index.encode()


def test_an_entry_comes_back() -> None:
    look = Look(1_500_000_001, 2_000_000_003, 1 << 40 | 7, 1 << 33 | 5, 1, 2, 3)
    made = {b"a": Record(Entry("100755", OID), look, False), b"b": record()._replace(marked=True)}
    index = CapturedIndex.of_records(made, "sha1")
    found = index.find(b"a")
    assert found is not None
    assert (found.entry, found.key, found.is_trusted) == (Entry("100755", OID), look.key, True)
    marked = index.find(b"b")
    assert marked is not None and not marked.is_trusted and marked.key == record().look.key
    assert index.find(b"ab") is None and len(index) == 2


def test_names_below_a_directory() -> None:
    made = {key: record() for key in (b"d", b"d-", b"d/a", b"d/b/c", b"d0")}
    made[b"n"] = Record(Entry("160000", OID), NOWHERE, True)
    index = CapturedIndex.of_records(made, "sha1")
    assert list(index.below(b"d/")) == [b"d/a", b"d/b/c"]
    assert index.gitlinks() == [b"n"]


def test_git_tells_what_changed(repo: Path) -> None:
    """Of files that look as they did nothing, of the marked one always."""
    for each in ("a", "b", "c"):
        (repo / each).write_text("hello\n")
        os.utime(repo / each, (1, 1))
    looks = {each: Look.of(os.lstat(repo / each)) for each in ("a", "b", "c")}
    made = {
        each.encode(): Record(Entry("100644", OID), look, each == "c")
        for each, look in looks.items()
    }
    path = repo / ".git" / "ours"
    path.write_bytes(CapturedIndex.of_records(made, "sha1").encode())
    (repo / "b").chmod(0o600)
    env = {**os.environ, "GIT_INDEX_FILE": os.fspath(path)}
    command = ["git", "diff-files", "--name-only"]
    told = subprocess.run(command, cwd=repo, env=env, capture_output=True, check=True).stdout
    # git compares whole seconds: `a` was changed in this one, and is not told by its time.
    assert told.split() in ([b"b", b"c"], [b"c"], [b"a", b"b", b"c"])


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_the_index_of_git(tmp_path: Path, object_format: str) -> None:
    git("init", "-q", f"--object-format={object_format}", ".", cwd=tmp_path)
    (tmp_path / "long").mkdir()
    for each in ("a", "long/" + "n" * 200, "l"):
        (tmp_path / each).write_text(each)
    git("add", "-A", cwd=tmp_path)
    git("add", "-N", "a", cwd=tmp_path)
    git("update-index", "--skip-worktree", "l", cwd=tmp_path)
    git("write-tree", cwd=tmp_path)
    data = (tmp_path / ".git" / "index").read_bytes()
    index = CapturedIndex.read(data, object_format)
    assert [os.fsdecode(one) for one in index.names()] == git("ls-files", cwd=tmp_path).split("\n")
    found = index.find(b"a")
    assert found is not None and found.is_trusted
    assert found.key == Look.of(os.lstat(tmp_path / "a")).key
    skipped = index.find(b"l")
    assert skipped is not None and not skipped.is_trusted
    assert noted_tree(data, object_format) == git("write-tree", cwd=tmp_path)


def test_a_tree_that_git_has_not_noted(repo: Path) -> None:
    (repo / "new").touch()
    git("add", "new", cwd=repo)
    assert noted_tree((repo / ".git" / "index").read_bytes(), "sha1") is None
    ours = CapturedIndex.of_records({b"TREE": record()}, "sha1").encode()
    assert noted_tree(ours, "sha1") is None


@pytest.mark.parametrize(
    "data",
    [b"", b"DIRC", b"DIRC\0\0\0\4\0\0\0\0" + bytes(20), b"DIRC\0\0\0\2\0\0\0\1" + bytes(20)],
)
def test_what_is_not_read(data: bytes) -> None:
    with pytest.raises(NotKnown):
        CapturedIndex.read(data, "sha1")


def test_offsets_of_another_index() -> None:
    data = CapturedIndex.of_records({b"a": record()}, "sha1").encode()
    with pytest.raises(NotKnown, match="another number"):
        CapturedIndex.read(data, "sha1", bytes(8))


def test_modes(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.touch(0o644)
    (tmp_path / "l").symlink_to("f")
    modes = [git_mode(os.lstat(one)) for one in (file, tmp_path / "l", tmp_path)]
    file.chmod(0o710)
    assert [*modes, git_mode(os.lstat(file))] == ["100644", "120000", None, "100755"]
