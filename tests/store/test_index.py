"""What is read of an index file is what `git ls-files` reads of it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from git_wf.store.index import IndexReader, NotReadable, index_size
from git_wf.store.objects import Entry
from git_wf.store.repo import Repo
from tests.conftest import git


def top(repo: Repo) -> Path:
    assert repo.work_tree is not None
    return repo.work_tree


def read(repo: Repo, *more: bytes) -> dict[bytes, Entry | None]:
    """Every path that git lists, and some that it does not."""
    paths = [line.partition(b"\t")[2] for line in listed(repo)]
    return IndexReader(repo.git_dir, repo.object_format).entries([*paths, *more])


def listed(repo: Repo) -> list[bytes]:
    return repo.git("ls-files", "-s", "-z").split(b"\0")[:-1]


def judged(repo: Repo) -> dict[bytes, Entry | None]:
    found: dict[bytes, Entry | None] = {}
    for line in listed(repo):
        about, _, path = line.partition(b"\t")
        mode, oid, _ = about.decode().split(" ")
        found[path] = Entry(mode, oid)  # type: ignore[arg-type]
    return found


def fill(repo: Repo, count: int = 200) -> None:
    for number in range(count):
        path = top(repo) / f"d{number % 7}" / ("long-" * (number % 9)) / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    (top(repo) / "link").symlink_to("README")
    (top(repo) / "run").write_text("x\n")
    (top(repo) / "run").chmod(0o755)
    repo.git("add", "-A")


@pytest.mark.parametrize("skip_worktree", [False, True], ids=["version 2", "version 3"])
def test_a_plain_index(opened: Repo, skip_worktree: bool) -> None:
    fill(opened)
    if skip_worktree:
        opened.git("update-index", "--skip-worktree", "d1/long-/f1", "README")
    found = read(opened, b"nowhere", b"d1", b"zzz", b"")
    assert found.pop(b"nowhere") is None
    assert [found.pop(path) for path in (b"d1", b"zzz", b"")] == [None] * 3
    assert found == judged(opened)


def test_names_that_do_not_fit_the_flags(opened: Repo) -> None:
    oid = opened.line("rev-parse", "HEAD:README")
    long = "/".join(["x" * 200] * 25)
    lines = "".join(f"100644 {oid}\t{long}{number}\0" for number in (1, 2))
    opened.git("update-index", "-z", "--index-info", stdin=lines.encode())
    assert read(opened) == judged(opened)


def test_a_split_index(opened: Repo) -> None:
    fill(opened)
    opened.git("update-index", "--split-index")
    chosen = random.Random(7)
    reader = IndexReader(opened.git_dir, opened.object_format)
    for number in range(12):
        names = [path.decode() for path in judged(opened)]
        for name in chosen.sample(names, 3):
            (top(opened) / name).unlink()
        for name in chosen.sample(names, 4):
            with (top(opened) / name).parent.joinpath(f"new{number}").open("a") as file:
                file.write(f"{number}\n")
            if (top(opened) / name).is_file():
                (top(opened) / name).write_text(f"again {number}\n")
        opened.git("add", "-A")
        found = reader.entries([*judged(opened), *(name.encode() for name in names)])
        assert {path: entry for path, entry in found.items() if entry} == judged(opened)
        assert reader.is_split


def test_a_split_index_of_many_entries(opened: Repo) -> None:
    fill(opened, 900)
    opened.git("-c", "core.splitIndex=true", "-c", "splitIndex.maxPercentChange=100", "add", "-A")
    for path in list(judged(opened))[100:700]:
        file = top(opened) / os.fsdecode(path)
        if not file.is_symlink():
            file.write_text("other\n")
    opened.git("-c", "splitIndex.maxPercentChange=100", "add", "-A")
    assert read(opened, b"nowhere") == {**judged(opened), b"nowhere": None}


def test_what_a_tree_would_not_get(opened: Repo) -> None:
    (top(opened) / "new").write_text("x\n")
    opened.git("add", "-N", "new")
    assert read(opened, b"new")[b"new"] is None


def test_an_unmerged_path_is_not_read(opened: Repo) -> None:
    oid = opened.line("rev-parse", "HEAD:README")
    lines = f"0 {opened.null_oid}\tREADME\n"
    lines += "".join(f"100644 {oid} {stage}\tREADME\n" for stage in (1, 2, 3))
    opened.git("update-index", "--index-info", stdin=lines.encode())
    reader = IndexReader(opened.git_dir, opened.object_format)
    assert reader.entries([b"src/a"]) == {b"src/a": judged(opened)[b"src/a"]}
    with pytest.raises(NotReadable, match="unmerged"):
        reader.entries([b"README"])


@pytest.mark.parametrize("damage", ["missing", "short", "changed", "version 4", "sparse", "base"])
def test_what_is_not_known_is_not_read(opened: Repo, damage: str) -> None:
    fill(opened, 20)
    path = opened.git_dir / "index"
    if damage == "version 4":
        opened.git("update-index", "--index-version", "4")
    elif damage == "sparse":
        opened.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    elif damage == "base":
        opened.git("update-index", "--split-index")
        for shared in opened.git_dir.glob("sharedindex.*"):
            shared.unlink()
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "short":
        path.write_bytes(data[:100])
    elif damage == "changed":
        path.write_bytes(data[:99] + b"\x99" + data[100:])
    with pytest.raises(NotReadable):
        IndexReader(opened.git_dir, opened.object_format).entries([b"README"])


def test_the_size(repo: Path, tmp_path: Path) -> None:
    assert index_size(repo / ".git") == (repo / ".git" / "index").stat().st_size
    git("status", cwd=repo)
    assert index_size(tmp_path) == 0
