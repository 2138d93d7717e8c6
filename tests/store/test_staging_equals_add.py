"""The tree of `stage` is the tree of `git add -A`, over random edits: the judge is git."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from git_wf.core.names import Oid
from git_wf.store.excludes import Excludes
from git_wf.store.objects import Commit, ObjectReader, encode_commit
from git_wf.store.packs import Pack, quarantine
from git_wf.store.repo import Repo
from git_wf.store.staging import Stager, Staging, restore_tracked, snapshot_tree, stage
from tests.conftest import git

ADA = "Ada Author <ada@example.com> 1764504000 +0100"
NAMES = [
    "a", "d", "d/a", "d/e/b", "d/e", "x\ny", '"q"', "-dash", "é", "trail ", " lead", "\udcff",
    "run.sh", "link", "crlf.txt", "new.txt", "up.up", "tracked.ign", "new.ign", "d/new.ign",
    ":(glob)x", "d\\e", "!a", "#a", "sub", "a~HEAD", "new/deep/er/f", "both",
]  # fmt: skip
CONTENTS = [b"", b"one\n", b"two\ntwo\n", b"cr\r\nlf\n", b"\0binary\r\n", b"lower\n"]


def build(path: Path) -> None:
    path.mkdir()
    git("init", "-q", ".", cwd=path)
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=path)
    git("config", "filter.upper.smudge", "tr A-Z a-z", cwd=path)
    for name in NAMES:
        if not name.startswith(("new", "sub", "link", "d/new", "a~")) and name not in ("d", "d/e"):
            write(path / name, f"{name!r} begins\n".encode())
    (path / "run.sh").chmod(0o755)
    (path / "link").symlink_to("a")
    (path / ".gitattributes").write_text("*.txt text eol=crlf\n*.up filter=upper\n")
    (path / ".gitignore").write_text("*.ign\n")
    sub = path / "sub"
    sub.mkdir()
    git("init", "-q", ".", cwd=sub)
    write(sub / "s", b"s\n")
    git("add", "-A", cwd=sub)
    git("commit", "-q", "-m", "sub", cwd=sub)
    text = '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n'
    (path / ".gitmodules").write_text(text)
    git("add", "-A", cwd=path)
    git("add", "-f", "tracked.ign", cwd=path)
    git("commit", "-q", "-m", "base", cwd=path)
    git("switch", "-q", "-c", "other", cwd=path)
    write(path / "both", b"theirs\n")
    write(path / "a", b"their a\n")
    git("rm", "-q", "d/a", cwd=path)
    git("commit", "-q", "-a", "-m", "other", cwd=path)
    git("switch", "-q", "main", cwd=path)


def clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def make_way(path: Path) -> None:
    """Real directories on the way to `path`, and nothing at it."""
    for parent in reversed(path.parents):
        if parent.is_symlink() or parent.is_file():
            parent.unlink()
        parent.mkdir(exist_ok=True)
    clear(path)


def write(path: Path, data: bytes) -> None:
    make_way(path)
    path.write_bytes(data)


def attempt(*args: str, cwd: Path) -> None:
    git(*args, cwd=cwd, ok=tuple(range(256)))


# Edits: (top, path, a number to choose by) → nothing.


def edit(top: Path, path: Path, n: int) -> None:
    write(path, CONTENTS[n % len(CONTENTS)])


def edit_in_place(top: Path, path: Path, n: int) -> None:
    if path.is_file() and not path.is_symlink():
        path.write_bytes(path.read_bytes()[::-1])


def remove(top: Path, path: Path, n: int) -> None:
    clear(path)


def change_mode(top: Path, path: Path, n: int) -> None:
    if path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o111)


def make_link(top: Path, path: Path, n: int) -> None:
    make_way(path)
    path.symlink_to(("a", "d", "..", "nowhere")[n % 4])


def replace_by_link_to_itself(top: Path, path: Path, n: int) -> None:
    """A directory moves away, and a symlink to it takes its place: the same names, behind it."""
    if path.is_dir() and not path.is_symlink() and path != top / "sub":
        moved = path.with_name(f"moved-{n}")
        clear(moved)
        path.rename(moved)
        path.symlink_to(moved.name)


def rename(top: Path, path: Path, n: int) -> None:
    target = top / NAMES[n % len(NAMES)]
    if os.path.lexists(path) and path not in (target, *target.parents) and target.name != "sub":
        if path == top / "sub" or target in path.parents:
            return
        make_way(target)
        if os.path.lexists(path):
            path.rename(target)


def touch(top: Path, path: Path, n: int) -> None:
    if path.is_file():
        os.utime(path, (n, n))


def edit_ignores(top: Path, path: Path, n: int) -> None:
    lines = ("*.ign", "d/", "!new.ign", "/a", "link", "*.txt", "d", "sub", "moved-*")
    write(top / ".gitignore", f"{lines[n % 9]}\n{lines[n // 9 % 9]}\n".encode())


def edit_attributes(top: Path, path: Path, n: int) -> None:
    lines = ("* text=auto", "*.txt -text", "a filter=upper", "d/** text eol=lf")
    write(top / ".gitattributes", f"{lines[n % 4]}\n".encode())


def add(top: Path, path: Path, n: int) -> None:
    force = ("-f",) if n % 2 else ()
    name = os.fspath(path.relative_to(top))
    attempt("--literal-pathspecs", "add", *force, "--", name, cwd=top)


def add_intent(top: Path, path: Path, n: int) -> None:
    attempt("--literal-pathspecs", "add", "-N", "--", os.fspath(path.relative_to(top)), cwd=top)


def untrack(top: Path, path: Path, n: int) -> None:
    name = os.fspath(path.relative_to(top))
    attempt("--literal-pathspecs", "rm", "-rqf", "--cached", "--", name, cwd=top)


def hide(top: Path, path: Path, n: int) -> None:
    flag = ("--assume-unchanged", "--skip-worktree", "--no-assume-unchanged", "--chmod=+x")[n % 4]
    attempt("update-index", flag, "--", os.fspath(path.relative_to(top)), cwd=top)


def lose_index(top: Path, path: Path, n: int) -> None:
    if n % 3 == 0:
        (top / ".git" / "index").unlink(missing_ok=True)


def merge(top: Path, path: Path, n: int) -> None:
    attempt("merge", "-q", "--no-commit", "--no-ff", "other", cwd=top)


def reset(top: Path, path: Path, n: int) -> None:
    attempt("reset", "-q", ("--mixed", "--soft")[n % 2], ("HEAD", "other")[n // 2 % 2], cwd=top)


def configure(top: Path, path: Path, n: int) -> None:
    key, value = (
        ("core.fileMode", "false"), ("core.fileMode", "true"), ("core.autocrlf", "true"),
        ("core.autocrlf", "input"), ("core.safecrlf", "false"), ("core.untrackedCache", "true"),
        ("core.splitIndex", "true"), ("status.showUntrackedFiles", "no"),
        ("status.renames", "copies"), ("status.showStash", "true"), ("core.quotePath", "true"),
        ("submodule.sub.ignore", "all"), ("diff.ignoreSubmodules", "all"),
        ("status.branch", "true"), ("index.version", "4"), ("core.symlinks", "true"),
    )[n % 16]  # fmt: skip
    git("config", key, value, cwd=top)


def change_submodule(top: Path, path: Path, n: int) -> None:
    sub = top / "sub"
    if (sub / ".git").is_dir():
        write(sub / f"s{n % 3}", CONTENTS[n % len(CONTENTS)])
        if n % 2:
            git("add", "-A", cwd=sub)
            git("commit", "-q", "--allow-empty", "-m", "more", cwd=sub)


EDITS: list[Callable[[Path, Path, int], None]] = [
    edit, edit, edit, edit_in_place, edit_in_place, remove, change_mode, make_link,
    replace_by_link_to_itself, rename, rename, touch, edit_ignores, edit_attributes, add, add,
    add_intent, untrack, hide, lose_index, merge, reset, configure, change_submodule,
]  # fmt: skip
Step = tuple[Callable[[Path, Path, int], None], str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(EDITS), st.sampled_from(NAMES), st.integers(0, 80)),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("staging") / "template"


def copy(source: Path, target: Path) -> None:
    clear(target)
    subprocess.run(["cp", "-a", os.fspath(source), os.fspath(target)], check=True)


def tree_of_add(top: Path) -> str | None:
    """What `git add -A` stores; None where it refuses the worktree. The index is put back."""
    index, kept = top / ".git" / "index", top / ".git" / "kept-index"
    kept.unlink(missing_ok=True)
    if index.exists():
        shutil.copy2(index, kept)
    else:
        git("read-tree", "HEAD", cwd=top)
    with quarantine(Repo.find(top, os.environ)) as place:
        env = {**os.environ, **place.env}
        done = subprocess.run(["git", "add", "-A"], cwd=top, env=env, capture_output=True)
        tree = subprocess.run(["git", "write-tree"], cwd=top, env=env, capture_output=True).stdout
    index.unlink()
    if kept.exists():
        kept.rename(index)
    return tree.decode().strip() if done.returncode == 0 else None


def staged(top: Path) -> Staging:
    repo = Repo.find(top, os.environ)
    with quarantine(repo) as place:
        result = stage(repo, Excludes(builtin=False), place.env)
        # What a recorder does by a pack.
        subprocess.run(
            ["cp", "-an", f"{place.path}/.", os.fspath(top / ".git" / "objects")], check=False
        )
    return result


def snapshot(top: Path) -> str:
    index = top / ".git" / "index"
    before = index.read_bytes() if index.exists() else None
    tree = snapshot_tree(Repo.find(top, os.environ), {})
    assert (index.read_bytes() if index.exists() else None) == before
    return tree


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(STEPS, min_size=1, max_size=3))
def test_stage_stores_what_add_stores(template: Path, rounds: list[list[Step]]):
    if not template.exists():
        build(template)
    top = template.with_name("top")
    copy(template, top)
    for steps in rounds:
        for change, name, number in steps:
            change(top, top / name, number)
        expected = tree_of_add(top)
        if expected is None:
            event("refused by git add")
        else:
            assert snapshot(top) == expected
        result = staged(top)
        assert expected in (None, result.tree)
        told = git("diff-tree", "-r", "-z", "--name-only", "HEAD", result.tree, cwd=top)
        for name in told.split("\0")[:-1]:
            assert any(name == one or name.startswith(f"{one}/") for one in result.changed)
        commit = git("commit-tree", "-m", "x", "-p", "HEAD", result.tree, cwd=top)
        git("update-ref", "HEAD", commit, cwd=top)
        (top / ".git" / "MERGE_HEAD").unlink(missing_ok=True)


@pytest.mark.parametrize("big_from", [0, 1 << 40], ids=["big", "small"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(STEPS, min_size=1, max_size=4))
def test_a_stager_stores_what_add_stores(
    template: Path,
    monkeypatch: pytest.MonkeyPatch,
    big_from: int,
    rounds: list[list[Step]],
):
    """One that lives on from checkpoint to checkpoint, and remembers what it knows."""
    monkeypatch.setattr("git_wf.store.staging._BIG", big_from)
    if not template.exists():
        build(template)
    top = template.with_name("top")
    copy(template, top)
    repo = Repo.find(top, os.environ)
    with ObjectReader(repo) as reader:
        stager = Stager(repo, Excludes(builtin=False), reader)
        for steps in rounds:
            for change, name, number in steps:
                change(top, top / name, number)
            expected = tree_of_add(top)
            pack = Pack(repo)
            result = stager.stage(pack)
            assert expected in (None, result.tree)
            event("by git" if not result.is_complete else "in process")
            checkpoint(pack, top, repo, reader, result)
    git("fsck", "--connectivity-only", "--no-dangling", cwd=top)


def checkpoint(pack: Pack, top: Path, repo: Repo, reader: ObjectReader, result: Staging) -> None:
    """What a recorder does with what was staged."""
    head = Oid(git("rev-parse", "HEAD", cwd=top))
    if not result.is_complete:
        pack.complete(reader, result.tree, reader.read_commit(head).tree)
    made = pack.add("commit", encode_commit(Commit(result.tree, (head,), ADA, ADA, "x\n")))
    kept = pack.write()
    assert kept is not None
    with kept:
        git("update-ref", "HEAD", made, cwd=top)
    (top / ".git" / "MERGE_HEAD").unlink(missing_ok=True)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_what_is_restored_is_head_and_nothing_is_lost(template: Path, steps: list[Step]):
    if not template.exists():
        build(template)
    top = template.with_name("top")
    copy(template, top)
    for change, name, number in steps:
        if change not in (hide, change_submodule) and name != "sub":
            change(top, top / name, number)
    before = contents(top)
    ignored = listed(top, "ls-files", "--others", "--ignored", "--exclude-standard", "-z")
    repo = Repo.find(top, os.environ)
    kept = listed(top, "ls-tree", "-r", "-z", "--name-only", snapshot_tree(repo, {}))
    assert restore_tracked(repo, Excludes(builtin=False)) == []
    # A file that only the changed .gitignore ignored has stayed.
    assert listed(top, "status", "--porcelain", "-uall", "-z") <= {f"?? {one}" for one in ignored}
    after = contents(top)
    lost = {name for name in before if after.get(name) != before[name]} - kept
    head = listed(top, "ls-tree", "-r", "-z", "--name-only", "HEAD")
    assert not [name for name in lost if not in_the_way(name, head)]


def listed(top: Path, *args: str) -> set[str]:
    return {*git(*args, cwd=top).split("\0")} - {""}


def contents(top: Path) -> dict[str, bytes]:
    found = {}
    for directory, directories, files in os.walk(top):
        directories[:] = [name for name in directories if name not in (".git", "sub")]
        for name in [*files, *directories]:
            path = Path(directory, name)
            if path.is_symlink():
                found[os.fspath(path.relative_to(top))] = os.fsencode(os.readlink(path))
            elif path.is_file():
                found[os.fspath(path.relative_to(top))] = path.read_bytes()
    return found


def in_the_way(name: str, head: set[str]) -> bool:
    """Whether HEAD has a file where `name`, or a directory that it is in, was; or one below it."""
    above = {name, *(os.fspath(parent) for parent in Path(name).parents)}
    return bool(above & head) or any(one.startswith(f"{name}/") for one in head)
