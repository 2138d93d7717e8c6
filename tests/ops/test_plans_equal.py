"""The script that `--dry-run` prints does what the command does, with nothing but git."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from git_wf.core.names import ulid
from tests.conftest import git
from tests.program import Program, run_id, write_workflow

# plan@1 work@1 check@1 (fail) plan@2 work@2 check@2
LOOP = r"""
plan [script="echo plan >>log"]
work [script="cat log >work; mkdir -p deep/er; cp log deep/er/it; date >>ignored.tmp"]
check [script="test $(wc -l <log) -ge 2"]
start -> plan -> work -> check
check -> exit [condition="outcome=success"]
check -> plan [condition="outcome=fail"]
"""
DATES = {
    "GIT_AUTHOR_DATE": "2031-05-06T07:08:09 +0200",
    "GIT_COMMITTER_DATE": "1925000000 -0330",
}
NEW = ulid(1_900_000_000_000, bytes(10))
TARGETS = ["", "plan@2", "plan", "check@1", "@0", "@1", "@6", "3", "6", "work@1"]


@dataclass
class Scene:
    """A repository with one finished run, and what stands for the same run made another way."""

    wf: Program
    repo: Path
    tmp_path: Path

    def same_by_script(self, *words: str) -> str:
        """Runs the command here and its script in a copy, and compares. The script."""
        copy = self.tmp_path / "copy"
        shutil.copytree(self.repo, copy, symlinks=True)
        script = self.wf.ok(*words, "--dry-run").out
        told = self.wf.ok(*words)
        run_script(script, copy)
        assert all_refs(copy) == all_refs(self.repo), told.err
        assert reflogs(copy) == reflogs(self.repo)
        shutil.rmtree(copy)
        return script


def run_script(script: str, where: Path) -> None:
    """By a plain shell, in an environment without our dates and identity."""
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))
    }
    done = subprocess.run(
        ["sh"], input=script.encode(), cwd=where, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def all_refs(where: Path) -> str:
    return git("for-each-ref", cwd=where)


def reflogs(where: Path) -> dict[str, str]:
    """Of every ref below `refs/wf` and of run branches: old and new, who, when and why."""
    refs = git("for-each-ref", "--format=%(refname)", "refs/wf", "refs/heads/wf", cwd=where)
    form = ["log", "-g", "--format=%H %gn %ge %gs %gd", "--date=raw"]
    return {ref: git(*form, ref, "--", cwd=where) for ref in refs.splitlines()}


def everything_in(*places: Path) -> dict[str, str]:
    """Path → kind and content of all that is there."""
    found = {}
    for place in places:
        for path in sorted(place.rglob("*")):
            if path.is_symlink():
                found[str(path)] = f"link {path.readlink()}"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[str(path)] = "directory"
    return found


def state_home() -> Path:
    return Path(os.environ["XDG_STATE_HOME"])


@pytest.fixture
def scene(wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    (repo / ".gitignore").write_text("*.tmp\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "second", cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "loop.dot", LOOP))
    for key, value in DATES.items():
        monkeypatch.setenv(key, value)
    return Scene(wf, repo, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_rewind(scene: Scene, target: str, fsck: Callable[[Path], None]) -> None:
    scene.same_by_script("rewind", *([target] if target else []))
    fsck(scene.repo)


@pytest.mark.parametrize("target", TARGETS)
def test_fork(scene: Scene, target: str, fsck: Callable[[Path], None]) -> None:
    scene.same_by_script("fork", *([target] if target else []), "--id", NEW)
    fsck(scene.repo)


def test_one_after_the_other(scene: Scene, fsck: Callable[[Path], None]) -> None:
    """After a rewind, of a fork, of a fork to before its fork point, of a run gone on with."""
    scene.same_by_script("rewind", "plan@2")
    scene.same_by_script("rewind", "@1")
    scene.same_by_script("fork", "--id", NEW)
    scene.same_by_script("fork", NEW, "@0", "--id", ulid(1_900_000_000_001, bytes(10)))
    scene.same_by_script("rewind", NEW, "@0")
    scene.wf.ok("resume", NEW)
    scene.same_by_script("rewind", NEW, "work@2")
    scene.same_by_script("fork", NEW, "plan", "--id", ulid(1_900_000_000_002, bytes(10)))
    scene.wf.ok("resume", run_id(1))
    scene.same_by_script("rewind", run_id(1), "check")
    fsck(scene.repo)


def test_with_another_namespace(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("config", "wf.namespace", "fabro", cwd=repo)
    git("config", "wf.metaNamespace", "refs/heads/fabro/meta", cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "loop.dot", LOOP))
    for key, value in DATES.items():
        monkeypatch.setenv(key, value)
    scene = Scene(wf, repo, tmp_path)
    scene.same_by_script("rewind", "plan@2")
    scene.same_by_script("fork", "plan@1", "--id", NEW)


def test_in_a_sha256_repository(
    wf: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "long ids'"
    repo.mkdir()
    git("init", "-q", "--object-format=sha256", ".", cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repo)
    wf.cwd = repo
    wf.ok("run", write_workflow(tmp_path / "loop.dot", LOOP))
    for key, value in DATES.items():
        monkeypatch.setenv(key, value)
    scene = Scene(wf, repo, tmp_path)
    scene.same_by_script("rewind", "plan@2")
    scene.same_by_script("fork", "@0", "--id", NEW)


def test_without_an_identity(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{side}_NAME")
        monkeypatch.delenv(f"GIT_{side}_EMAIL")
    git("config", "user.useConfigOnly", "false", cwd=scene.repo)
    scene.same_by_script("rewind", "@3")
    scene.same_by_script("fork", "--id", NEW)


class TestWithAWorktree:
    """The run's own worktree, kept, follows; what was not recorded in it is kept before."""

    @pytest.fixture
    def kept(self, wf: Program, repo: Path, tmp_path: Path) -> tuple[Scene, Path]:
        (repo / ".gitignore").write_text("*.tmp\n")
        git("add", "-A", cwd=repo)
        git("commit", "-q", "-m", "second", cwd=repo)
        wf.ok("run", "--keep-worktree", write_workflow(tmp_path / "loop.dot", LOOP))
        listed = git("worktree", "list", "--porcelain", cwd=repo)
        (tree,) = (
            Path(line.removeprefix("worktree "))
            for line in listed.splitlines()
            if line.startswith(f"worktree {state_home()}")
        )
        return Scene(wf, repo, tmp_path), tree

    def both_ways(self, scene: Scene, tree: Path, *words: str) -> tuple[str, str]:
        """By the command, then, with everything put back as it was, by the script.

        stdout of the command, and its refs: they and the worktree are the same both times.
        """
        script = scene.wf.ok(*words, "--dry-run").out
        saved = scene.tmp_path / "saved"
        shutil.copytree(scene.repo, saved / "repo", symlinks=True)
        shutil.copytree(state_home(), saved / "state", symlinks=True)
        told = scene.wf.ok(*words)
        by_command = [all_refs(scene.repo), reflogs(scene.repo), *seen(tree)]
        shutil.rmtree(scene.repo)
        shutil.rmtree(state_home())
        shutil.copytree(saved / "repo", scene.repo, symlinks=True)
        shutil.copytree(saved / "state", state_home(), symlinks=True)
        run_script(script, scene.repo)
        by_script = [all_refs(scene.repo), reflogs(scene.repo), *seen(tree)]
        for one, other in zip(by_script, by_command, strict=True):
            assert one == other
        return told.err, by_command[0]

    @pytest.fixture(autouse=True)
    def dates(self, kept: object, monkeypatch: pytest.MonkeyPatch) -> None:
        for key, value in DATES.items():
            monkeypatch.setenv(key, value)

    def test_clean(self, kept: tuple[Scene, Path]) -> None:
        scene, tree = kept
        told, refs = self.both_ways(scene, tree, "rewind", "plan@2")
        assert "rescue" not in told + refs
        assert (tree / "log").read_text() == "plan\nplan\n"
        assert git("status", "--porcelain", cwd=tree) == ""

    def test_dirty(self, kept: tuple[Scene, Path]) -> None:
        scene, tree = kept
        (tree / "log").write_text("half done\n")
        (tree / "new file").write_text("new\n")
        (tree / "README").unlink()
        (tree / "deep" / "er" / "link").symlink_to("nowhere")
        (tree / "staged").write_text("staged\n")
        git("add", "staged", cwd=tree)
        told, refs = self.both_ways(scene, tree, "rewind", "plan@1")
        (rescue,) = (ref for ref in refs.split() if ref.startswith("refs/wf/rescue/"))
        assert f"notice: unrecorded changes in the worktree are kept at {rescue}\n" in told
        assert git("show", f"{rescue}:log", cwd=scene.repo) == "half done"
        assert git("ls-tree", "-r", "--name-only", rescue, cwd=scene.repo).splitlines() == [
            ".gitignore", "deep/er/it", "deep/er/link", "log", "new file", "staged", "work",
        ]  # fmt: skip
        assert git("status", "--porcelain", cwd=tree) == ""
        assert sorted(path.name for path in tree.iterdir()) == [
            ".git", ".gitignore", "README", "ignored.tmp", "log",
        ]  # fmt: skip

    def test_a_repository_in_the_worktree(self, kept: tuple[Scene, Path]) -> None:
        scene, tree = kept
        nested = tree / "cloned"
        nested.mkdir()
        git("init", "-q", ".", cwd=nested)
        (nested / "inner").write_text("inner\n")
        git("add", "-A", cwd=nested)
        git("commit", "-q", "-m", "inner", cwd=nested)
        _, refs = self.both_ways(scene, tree, "rewind", "plan@1")
        (rescue,) = (ref for ref in refs.split() if ref.startswith("refs/wf/rescue/"))
        assert git("show", f"{rescue}:cloned/inner", cwd=scene.repo) == "inner"

    def test_what_is_kept_out_of_checkpoints_stays(self, kept: tuple[Scene, Path]) -> None:
        scene, tree = kept
        git("config", "wf.excludeGlobs", "*.cache", cwd=scene.repo)
        (tree / "it's.cache").write_text("kept\n")
        self.both_ways(scene, tree, "rewind", "plan@1")
        assert (tree / "it's.cache").read_text() == "kept\n"


def seen(tree: Path) -> tuple[dict[str, str], str]:
    """What is in a worktree, and what git says of it."""
    here = {
        path.replace(str(tree), ""): told
        for path, told in everything_in(tree).items()
        if "/.git/" not in path
    }
    return here, git("status", "--porcelain=v2", "--branch", "--ignored", cwd=tree)


@pytest.mark.parametrize("words", [["rewind", "plan@2"], ["fork", "@0"], ["rewind", "--list"]])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_dry_run_changes_nothing(
    scene: Scene, words: list[str], form: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything_in(scene.repo, state_home())
    scene.wf.ok(*words, "--dry-run", *form)
    assert everything_in(scene.repo, state_home()) == before


def test_a_dry_run_in_a_fresh_clone_changes_nothing(scene: Scene) -> None:
    """Not even the directory of locks is made."""
    clone = scene.tmp_path / "clone"
    git("clone", "-q", "--bare", "--mirror", str(scene.repo), str(clone), cwd=scene.tmp_path)
    before = everything_in(clone, state_home())
    scene.wf.ok("rewind", "plan@2", "--dry-run", cwd=clone)
    scene.wf.ok("fork", "plan@2", "--dry-run", cwd=clone)
    assert everything_in(clone, state_home()) == before


SECOND = ulid(1_900_000_000_001, bytes(10))


class TestHousekeeping:
    """The operations that make runs go and come back."""

    @pytest.fixture
    def two(self, scene: Scene) -> Scene:
        """The run, and an unfinished fork of it."""
        scene.wf.ok("fork", "plan@2", "--id", NEW)
        return scene

    def test_rm(self, two: Scene, fsck: Callable[[Path], None]) -> None:
        two.same_by_script("rm", NEW)
        two.same_by_script("undo")
        two.same_by_script("redo")
        two.same_by_script("rm", run_id(1))
        two.same_by_script("undo", NEW)
        two.same_by_script("undo")
        fsck(two.repo)

    def test_prune(
        self, two: Scene, fsck: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        two.same_by_script("prune", "--keep", "0", "--unfinished")
        two.same_by_script("undo", run_id(1))
        two.same_by_script("redo", run_id(1))
        two.same_by_script("undo")
        two.same_by_script("redo")
        monkeypatch.setenv("GIT_COMMITTER_DATE", "1933000000 -0330")  # 93 days later
        two.same_by_script("prune")
        assert all_refs(two.repo).splitlines()[1:] == []
        fsck(two.repo)

    def test_archive(self, two: Scene, fsck: Callable[[Path], None]) -> None:
        two.wf.ok("resume", NEW)
        two.same_by_script("archive", run_id(1))
        two.same_by_script("archive", NEW)
        two.same_by_script("undo", run_id(1))
        two.same_by_script("redo")
        two.same_by_script("rm", NEW)
        two.same_by_script("undo")
        two.same_by_script("fork", run_id(1), "@2", "--id", SECOND)
        fsck(two.repo)

    def test_turns(self, two: Scene, fsck: Callable[[Path], None]) -> None:
        two.same_by_script("rewind", run_id(1), "plan@1")
        two.same_by_script("undo", NEW)
        two.same_by_script("undo")
        two.same_by_script("redo", NEW)
        two.same_by_script("redo")
        two.same_by_script("undo", run_id(1))
        fsck(two.repo)

    @pytest.mark.parametrize(
        "words", [["rm", NEW], ["prune", "--keep", "0"], ["archive", run_id(1)], ["undo"]]
    )
    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_a_dry_run_changes_nothing(self, two: Scene, words: list[str], form: list[str]) -> None:
        before = everything_in(two.repo, state_home())
        two.wf.ok(*words, "--dry-run", *form)
        assert everything_in(two.repo, state_home()) == before
