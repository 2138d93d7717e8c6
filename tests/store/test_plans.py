from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest

from git_wf.core.names import Names, Oid, RefName
from git_wf.errors import Conflict
from git_wf.store.identity import Identity
from git_wf.store.objects import Commit, Entry, ObjectReader, decode_tree
from git_wf.store.plans import (
    NewObject,
    RefPlan,
    WorktreeStep,
    apply_plan,
    new_blob,
    new_commit,
    new_tree,
    plan_script,
    plan_to_json,
)
from git_wf.store.refs import RefUpdate, list_refs
from git_wf.store.repo import Repo
from tests.conftest import git

RUN, META = RefName("refs/heads/wf/run/01A"), RefName("refs/wf/meta/01A")
OLD = RefName("refs/wf/old/01A/01B/run")
ADA = "Ada Author <ada@example.com> 1764504000 +0100"
CARL = "Carl Committer <carl@example.com> 1764504060 -0730"
WHO = Identity(
    "Ada Author <ada@example.com>",
    "Carl Committer <carl@example.com>",
    "1764504000 +0100",
    "1764504060 -0730",
)
NOW = datetime(2025, 11, 30, 12, tzinfo=timezone.utc)  # the dates of WHO are fixed
NAMES = Names()
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Author",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "@1764504000 +0100",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.com",
    "GIT_COMMITTER_DATE": "@1764504060 -0730",
}


def copied(repo: Repo, path: Path) -> Repo:
    """The repository as it is now, in another place."""
    shutil.copytree(repo.common_dir, path, symlinks=True)
    return Repo(path, path, None, repo.object_format, repo.env)


def run_script(script: str, repo: Repo, shell: str = "dash") -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "GIT_DIR": os.fspath(repo.git_dir)}
    for key in list(env):
        if key.startswith(("GIT_AUTHOR", "GIT_COMMITTER")):
            del env[key]
    text = script.encode()  # a script can be shown: it is UTF-8
    return subprocess.run([shell], input=text, env=env, capture_output=True, check=False)


def same_by_script(repo: Repo, plan: RefPlan, tmp_path: Path) -> str:
    """Applies the plan here and its script in a copy, and compares. The script."""
    script = plan_script(repo, plan, IDENTITY, NAMES)
    copy = copied(repo, tmp_path / "copy")
    apply_plan(repo, plan, WHO, NOW, names=NAMES)
    done = run_script(script, copy)
    assert done.returncode == 0, done.stderr.decode()
    assert list_refs(copy) == list_refs(repo)
    for update in plan.updates:
        if update.new is not None:
            shown = ["log", "-1", "-g", "--format=%H %gn %ge %gs %gd", "--date=raw", update.ref]
            assert copy.git(*shown) == repo.git(*shown)
    copy.git("fsck", "--full", "--strict")
    repo.git("fsck", "--full", "--strict")
    return script


def plan_of(repo: Repo, objects: list[NewObject]) -> RefPlan:
    """One that makes the metadata ref at the last of `objects`."""
    update = RefUpdate(META, objects[-1].oid, None)
    return RefPlan("fork", "01A", "wf: fork plan@2", (update,), tuple(objects))


def commit_of(repo: Repo, message: str, tree: NewObject | None = None, **fields: str) -> NewObject:
    head = Oid(repo.line("rev-parse", "HEAD"))
    oid = tree.oid if tree else Oid(repo.line("rev-parse", "HEAD^{tree}"))
    commit = Commit(oid, (head,), fields.get("author", ADA), fields.get("committer", CARL), message)
    return new_commit("metadata commit", commit, repo.object_format)


def test_the_script_is_what_a_person_can_read(repo: Path) -> None:
    opened = Repo.find(repo, os.environ)
    head = Oid(opened.line("rev-parse", "HEAD"))
    opened.git("update-ref", RUN, head)
    record = new_blob("run.json", b'{\n  "run_id": "01A"\n}\n', "sha1")
    tree = new_tree("metadata tree", {b"run.json": Entry("100644", record.oid)}, "sha1")
    commit = new_commit(
        "metadata commit", Commit(tree.oid, (head,), ADA, CARL, "fork from 01A @2\n"), "sha1"
    )
    plan = RefPlan(
        operation="fork",
        run_id="01A",
        new_run_id="01C",
        target="plan@2",
        reason="wf: fork plan@2",
        objects=(record, tree, commit),
        updates=(
            RefUpdate(META, commit.oid, None),
            RefUpdate(OLD, head, None),
            RefUpdate(RUN, None, head),
        ),
        kept=(OLD,),
        worktrees=(WorktreeStep(Path("/trees/1"), Path("/r/1"), (("reset", "-q", "--hard"),)),),
    )
    assert (
        plan_script(opened, plan, IDENTITY, NAMES)
        == f"""\
#!/bin/sh
# fork plan@2, as plain git
set -e
export GIT_AUTHOR_DATE='@1764504000 +0100'
export GIT_AUTHOR_EMAIL=ada@example.com
export GIT_AUTHOR_NAME='Ada Author'
export GIT_COMMITTER_DATE='@1764504060 -0730'
export GIT_COMMITTER_EMAIL=carl@example.com
export GIT_COMMITTER_NAME='Carl Committer'

expect() {{
    read -r made || made=nothing
    [ "$made" = "$1" ] || {{ echo "fatal: expected $1, made $made" >&2; exit 1; }}
}}

# run.json
git hash-object -t blob -w --stdin <<'END' | expect {record.oid}
{{
  "run_id": "01A"
}}
END

# metadata tree
git mktree <<'END' | expect {tree.oid}
100644 blob {record.oid}\trun.json
END

# metadata commit
git -c i18n.commitEncoding=UTF-8 commit-tree {tree.oid} -p {head} -F - <<'END' | expect {commit.oid}
fork from 01A @2
END

git update-ref --create-reflog -m 'wf: fork plan@2' --stdin <<'END'
create {META} {commit.oid}
create {OLD} {head}
delete {RUN} {head}
END

here=$(cd "$(git rev-parse --git-common-dir)" && pwd -P)
if [ -d /trees/1 ] && [ "$here" = {opened.common_dir} ]; then
    (cd /trees/1 && git --git-dir /r/1 --work-tree /trees/1 reset -q --hard)
fi
"""
    )
    assert plan_to_json(plan, applied=False) == {
        "format": 1,
        "operation": "fork",
        "run_id": "01A",
        "new_run_id": "01C",
        "target": "plan@2",
        "updates": [
            {"ref": META, "old": None, "new": commit.oid},
            {"ref": OLD, "old": None, "new": head},
            {"ref": RUN, "old": head, "new": None},
        ],
        "kept": [OLD],
        "applied": False,
    }


def test_refs_alone(opened: Repo, tmp_path: Path) -> None:
    head = Oid(opened.line("rev-parse", "HEAD"))
    opened.git("update-ref", RUN, head)
    plan = RefPlan("rm", "01A", "wf: it's gone", (RefUpdate(RUN, None, head),))
    script = same_by_script(opened, plan, tmp_path)
    assert "expect" not in script
    assert list(list_refs(opened)) == ["refs/heads/main"]


@pytest.mark.parametrize(
    "message",
    [
        "subject\n", "subject", "s\n\n\n", "\n s\n", "", "END\nEND1\n", "it's $HOME `x` \\ %s\n",
        "s\n\n    text\n\nWF-Run: 01A\n", "# no comment\n", "übung ✓\n", "odd \udcff byte\n",
        "tab\tand\rreturn\n", "\x1b[31mred\n", "\u2028\x85\n", "-F -\n", "\u202eback\n",
    ],
)  # fmt: skip
def test_messages_come_out_byte_for_byte(opened: Repo, tmp_path: Path, message: str) -> None:
    commit = commit_of(opened, message)
    same_by_script(opened, plan_of(opened, [commit]), tmp_path)
    with ObjectReader(opened) as reader:
        assert reader.read_commit(META).message == message


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"no newline", b"\0\xff%\\'\n", b"END\n", b"$(x)\n", bytes(range(256)) * 9]
)
def test_blobs_come_out_byte_for_byte(opened: Repo, tmp_path: Path, data: bytes) -> None:
    blob = new_blob("odd\nname \xff", data, opened.object_format)
    tree = new_tree("tree", {b"f": Entry("100755", blob.oid)}, opened.object_format)
    plan = plan_of(opened, [blob, tree, commit_of(opened, "x\n", tree)])
    same_by_script(opened, plan, tmp_path)
    assert opened.git("cat-file", "blob", f"{META}:f") == data


@pytest.mark.parametrize("name", [b"a b", b'"quoted"', b"back\\slash", b"tab\t", b"new\nline",
                                  b"\xff", "übung".encode(), b" lead", b"'", b"%s"])  # fmt: skip
def test_trees_with_odd_names(opened: Repo, tmp_path: Path, name: bytes) -> None:
    blob = new_blob("blob", b"x\n", opened.object_format)
    below = new_tree("below", {name: Entry("120000", blob.oid)}, opened.object_format)
    link = Oid("1" * len(blob.oid))
    entries = {name: Entry("40000", below.oid), b"sub": Entry("160000", link)}
    tree = new_tree("tree", entries, opened.object_format)
    plan = plan_of(opened, [blob, below, tree, commit_of(opened, "x\n", tree)])
    same_by_script(opened, plan, tmp_path)
    read = opened.git("cat-file", "tree", f"{META}^{{tree}}")
    assert decode_tree(read, opened.object_format) == entries


@pytest.mark.parametrize(
    "author",
    [
        "Ünï O'Ñame <a.b+c@x-y.example> 1 +0000",
        "Dr. Dot. <dot@example.com> 1764504000 -1200",
        "'quoted' <q@example.com> 1764504000 +0000",
        " <no@name.example> 1764504000 +0000",
        "X <> 1764504000 +0000",
        "A  B <two  spaces> 1764504000 +0000",
        "Odd \udcff <odd@example.com> 1764504000 +0000",
    ],
)
def test_authors_come_out_byte_for_byte(opened: Repo, tmp_path: Path, author: str) -> None:
    commit = commit_of(opened, "x\n", author=author)
    after = commit_of(opened, "y\n")
    plan = plan_of(opened, [commit, after, commit])
    same_by_script(opened, plan, tmp_path)
    with ObjectReader(opened) as reader:
        assert reader.read_commit(META).author == author


def test_a_commit_with_headers_of_its_own(opened: Repo, tmp_path: Path) -> None:
    tree = Oid(opened.line("rev-parse", "HEAD^{tree}"))
    commit = Commit(tree, (), ADA, CARL, "x\n", (("x-note", "two\nlines"),))
    made = new_commit("commit", commit, opened.object_format)
    same_by_script(opened, plan_of(opened, [made]), tmp_path)


def test_a_script_that_would_make_something_else_moves_nothing(opened: Repo) -> None:
    commit = commit_of(opened, "x\n")
    script = plan_script(opened, plan_of(opened, [commit]), IDENTITY, NAMES).replace(
        "\nx\n", "\ny\n"
    )
    done = run_script(script, opened)
    assert done.returncode == 1
    assert done.stderr.startswith(f"fatal: expected {commit.oid}, made ".encode())
    assert list(list_refs(opened)) == ["refs/heads/main"]


def test_a_script_refuses_what_has_moved(opened: Repo) -> None:
    commit = commit_of(opened, "x\n")
    plan = plan_of(opened, [commit])
    script = plan_script(opened, plan, IDENTITY, NAMES)
    opened.git("update-ref", META, "HEAD")
    before = list_refs(opened)
    assert run_script(script, opened).returncode == 128
    with pytest.raises(Conflict):
        apply_plan(opened, plan, WHO, NOW, names=NAMES)
    assert list_refs(opened) == before
    assert list((opened.objects_dir / "pack").glob("*.keep")) == []


@pytest.mark.parametrize("by_script", [False, True])
def test_worktrees_follow(opened: Repo, tmp_path: Path, by_script: bool) -> None:
    path = tmp_path / "it's a tree"
    opened.git("worktree", "add", "-q", "-b", "wf/run/01A", os.fspath(path))
    git("commit", "-q", "--allow-empty", "-m", "second", cwd=path)
    (path / "README").write_text("changed\n")
    old, new = (Oid(git("rev-parse", name, cwd=path)) for name in ("HEAD", "HEAD~"))
    git_dir = Path(git("rev-parse", "--absolute-git-dir", cwd=path))
    plan = RefPlan(
        "rewind",
        "01A",
        "wf: rewind @1",
        (RefUpdate(RUN, new, old),),
        worktrees=(
            WorktreeStep(path, git_dir, (("reset", "-q", "--hard"),)),
            WorktreeStep(tmp_path / "gone", git_dir, (("reset", "-q", "--hard"),)),
        ),
    )
    script = plan_script(opened, plan, IDENTITY, NAMES)
    if by_script:
        # In a copy of the repository the worktree is not its own, and is left alone.
        assert run_script(script, copied(opened, tmp_path / "copy")).returncode == 0
        assert (path / "README").read_text() == "changed\n"
        assert run_script(script, opened).returncode == 0
    else:
        apply_plan(opened, plan, WHO, NOW, names=NAMES)
    assert git("status", "--porcelain", cwd=path) == ""
    assert (path / "README").read_text() == "hello\n"
    assert list_refs(opened, RUN) == {RUN: new}
