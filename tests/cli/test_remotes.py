"""`git wf push`, `fetch` and `pull`, against real bare repositories."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program, run_id, write_workflow
from tests.tree import ROOT

PARALLEL = """\
fan [shape=component]
a [script="date >a"]
b [script="date >b"]
join [shape=tripleoctagon, merge="all"]
start -> fan
fan -> a -> join
fan -> b -> join
join -> exit"""
CHAIN = (
    'a [script="date >a"] b [script="date >b"] c [script="date >c"] start -> a -> b -> c -> exit'
)
TOKEN = "ghp_" + "A1b2" * 9  # of the form of a token, and none


def refs(path: Path) -> dict[str, str]:
    listed = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=path).splitlines()
    return dict(line.split(" ") for line in listed if not line.startswith("refs/remotes/"))


def of_runs(path: Path) -> dict[str, str]:
    return {ref: oid for ref, oid in refs(path).items() if "/main" not in ref}


def config(path: Path, key: str, value: str) -> None:
    git("config", key, value, cwd=path)


@pytest.fixture
def origin(loop: LoopRun, tmp_path: Path) -> Path:
    """A bare repository, the remote of the one that has the run."""
    path = tmp_path / "origin.git"
    git("init", "-q", "--bare", str(path), cwd=tmp_path)
    git("remote", "add", "origin", f"file://{path}", cwd=loop.repo)
    git("push", "-q", "origin", "main", cwd=loop.repo)
    return path


@pytest.fixture
def other(origin: Path, tmp_path: Path) -> Path:
    """Another clone."""
    git("clone", "-q", f"file://{origin}", "other", cwd=tmp_path)
    return tmp_path / "other"


def own_refs(loop: LoopRun) -> dict[str, str]:
    ours = (f"refs/heads/{loop.branch}", loop.meta)
    return {ref: loop.resolve(ref) for ref in ours}


def all_refs(loop: LoopRun) -> dict[str, str]:
    """What rewinds left behind too."""
    return {ref: oid for ref, oid in of_runs(loop.repo).items() if f"/{loop.run}" in ref}


def test_push_and_fetch(
    loop: LoopRun, origin: Path, other: Path, fsck: Callable[[Path], None]
) -> None:
    result = loop.wf.ok("push")
    assert (result.out, result.err) == (f"pushed run {loop.run} to origin\n", "")
    assert of_runs(origin) == own_refs(loop)
    assert loop.wf.ok("push", "origin", loop.run[:12]).out == (
        f"run {loop.run} is at origin already\n"
    )
    assert loop.wf.ok("fetch", cwd=other).out == f"fetched run {loop.run} from origin\n"
    assert of_runs(other) == own_refs(loop)
    assert loop.wf.ok("fetch", cwd=other).out == f"run {loop.run} is as origin has it\n"
    here, there = (loop.wf.ok("log", "--json", cwd=place).json for place in (loop.repo, other))
    assert here == there
    assert loop.wf.ok("verify", cwd=other).status == 0
    fsck(other)


def test_json(loop: LoopRun, origin: Path, other: Path) -> None:
    moved = [{"ref": ref, "old": None, "new": oid} for ref, oid in own_refs(loop).items()]
    (pushed,) = loop.wf.ok("push", "--json").json["runs"]
    assert pushed == {"run_id": loop.run, "updates": moved, "left": []}
    (fetched,) = loop.wf.ok("fetch", "--json", cwd=other).json["runs"]
    assert (fetched["run_id"], fetched["state"], fetched["kept"]) == (loop.run, "new", [])
    assert sorted(one["ref"] for one in fetched["updates"]) == sorted(own_refs(loop))


def test_nothing_is_pushed_unless_asked(loop: LoopRun, origin: Path, tmp_path: Path) -> None:
    git("push", "-q", "--all", "origin", cwd=loop.repo)
    assert of_runs(origin) == {f"refs/heads/{loop.branch}": loop.resolve(loop.branch)}
    loop.wf.ok("push")
    git("clone", "-q", f"file://{origin}", "clone", cwd=tmp_path)
    listed = git("for-each-ref", "--format=%(refname)", cwd=tmp_path / "clone").splitlines()
    assert not [ref for ref in listed if ref.startswith("refs/wf/")]
    meta = git("rev-parse", loop.meta, cwd=loop.repo)
    git("cat-file", "-e", meta, cwd=tmp_path / "clone", ok=(1, 128))


def test_all_runs(loop: LoopRun, origin: Path, other: Path, tmp_path: Path) -> None:
    loop.wf.ok("run", tmp_path / "loop.dot")
    loop.wf.ok("push", "--all")
    assert of_runs(origin) == of_runs(loop.repo)
    loop.wf.ok("fetch", "origin", run_id(2)[:26], cwd=other)
    assert {ref.rpartition("/")[2] for ref in of_runs(other)} == {run_id(2)}


def test_a_handed_over_run_goes_on(loop: LoopRun, origin: Path, other: Path) -> None:
    loop.wf.ok("rewind", "plan@2")
    loop.wf.ok("push")
    loop.wf.ok("fetch", cwd=other)
    loop.wf.ok("resume", loop.run, cwd=other)
    loop.wf.ok("push", cwd=other)
    assert loop.wf.ok("fetch").out == f"run {loop.run} is now as origin has it\n"
    assert of_runs(origin) == of_runs(other) == all_refs(loop)
    loop.wf.ok("verify", cwd=other)


def test_a_rewind_is_followed_by_a_pull_only(loop: LoopRun, origin: Path, other: Path) -> None:
    loop.wf.ok("push")
    loop.wf.ok("fetch", cwd=other)
    tip, before = loop.resolve(loop.branch), of_runs(other)
    loop.wf.ok("rewind", "plan@1")
    loop.wf.ok("push")
    result = loop.wf.ok("fetch", cwd=other)
    assert (result.out, result.err) == (
        f"run {loop.run} was rewound at origin, and stays here as it is\n",
        f"hint: git wf pull origin {loop.run} follows\n",
    )
    assert of_runs(other) == before
    loop.wf.ok("pull", cwd=other)
    assert of_runs(other) == all_refs(loop)
    assert tip in all_refs(loop).values()
    assert loop.wf.ok("log", "--json", cwd=other).json == loop.wf.ok("log", "--json").json
    loop.wf.ok("undo", cwd=other)
    assert git("rev-parse", loop.branch, cwd=other) == tip


def test_a_run_that_went_on_elsewhere(loop: LoopRun, origin: Path, other: Path) -> None:
    loop.wf.ok("rewind", "plan@2")
    loop.wf.ok("push")
    loop.wf.ok("fetch", cwd=other)
    loop.wf.ok("resume", cwd=other)
    loop.wf.ok("push", cwd=other)
    loop.wf.ok("resume", "--no-claim")
    before = (of_runs(loop.repo), of_runs(origin))
    result = loop.wf("push")
    assert (result.status, result.out) == (128, "")
    assert f"fatal: run {loop.run} went on elsewhere: 'origin' has" in result.err
    assert "hint: git wf fork" in result.err
    loop.wf.fails(
        128,
        ["fetch"],
        f"fatal: run {loop.run} went on here and at 'origin'\n"
        f"hint: git wf fork {loop.run} keeps what is here as a run of its own\n"
        f"hint: git wf rm {loop.run} && git wf fetch origin {loop.run} then takes what is there\n",
    )
    assert (of_runs(loop.repo), of_runs(origin)) == before
    loop.wf.ok("rm", loop.run)
    loop.wf.ok("fetch", "origin", loop.run)
    assert of_runs(origin).items() <= of_runs(loop.repo).items()


def test_a_remote_that_lets_no_branch_go_back(loop: LoopRun, origin: Path) -> None:
    config(origin, "receive.denyNonFastForwards", "true")
    loop.wf.ok("push")
    before = of_runs(origin)
    loop.wf.ok("rewind", "plan@1")
    loop.wf.fails(
        128,
        ["push"],
        f"error: run {loop.run} was rewound, and 'origin' lets no branch go back\n"
        f"hint: git wf fork {loop.run}, then git wf push origin of the fork\n",
    )
    assert of_runs(origin) == before
    loop.wf.ok("fork")
    loop.wf.ok("push", "origin", run_id(2))
    assert run_id(2) in {ref.rpartition("/")[2] for ref in of_runs(origin)}


def hook(path: Path, name: str, body: str) -> None:
    (path / "hooks").mkdir(exist_ok=True)
    script = path / "hooks" / name
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)


def refuse_by_update(path: Path) -> None:
    hook(path, "update", 'case $1 in refs/wf/*) echo "branches only" >&2; exit 1;; esac')


def refuse_by_pre_receive(path: Path) -> None:
    hook(path, "pre-receive", 'if grep -q " refs/wf/"; then echo "branches only" >&2; exit 1; fi')


def refuse_by_hiding(path: Path) -> None:
    config(path, "transfer.hideRefs", "refs/wf")


@pytest.mark.parametrize("refuse", [refuse_by_update, refuse_by_pre_receive, refuse_by_hiding])
def test_a_host_that_takes_branches_only(
    loop: LoopRun, origin: Path, other: Path, refuse: Callable[[Path], None]
) -> None:
    refuse(origin)
    result = loop.wf.ok("push")
    assert result.out == f"pushed run {loop.run} to origin\n"
    assert result.err == (
        f"warning: 'origin' takes branches only: the state of run {loop.run} is on a branch there\n"
    )
    tip, meta = own_refs(loop).values()
    there = f"refs/heads/wf/meta/{loop.run}"
    assert of_runs(origin) == {f"refs/heads/{loop.branch}": tip, there: meta}
    loop.wf.ok("fetch", cwd=other)
    assert of_runs(other) == own_refs(loop)
    loop.wf.ok("rewind", "plan@1")
    loop.wf.ok("push")
    hosted = {ref.replace("refs/wf/", "refs/heads/wf/"): oid for ref, oid in all_refs(loop).items()}
    assert of_runs(origin) == hosted


def test_metadata_on_branches(wf: Program, repo: Path, tmp_path: Path) -> None:
    """What rewinds left is pushed to branches too, once and not again."""
    path = tmp_path / "origin.git"
    git("init", "-q", "--bare", str(path), cwd=tmp_path)
    refuse_by_hiding(path)
    git("push", "-q", str(path), "main", cwd=repo)
    git("clone", "-q", f"file://{path}", "other", cwd=tmp_path)
    git("remote", "add", "origin", f"file://{path}", cwd=repo)
    for place in (repo, tmp_path / "other"):
        config(place, "wf.metaNamespace", "refs/heads/wf/meta")
    wf.ok("run", write_workflow(tmp_path / "w.dot", CHAIN))
    wf.ok("push")
    for target in ("b", "a"):
        wf.ok("rewind", target)
        wf.ok("push")
        assert of_runs(path) == {ref.replace("refs/wf/", "refs/heads/wf/"): oid
                                 for ref, oid in of_runs(repo).items()}  # fmt: skip
    assert wf.ok("push").out.endswith("is at origin already\n")
    wf.ok("fetch", cwd=tmp_path / "other")
    assert of_runs(tmp_path / "other") == of_runs(repo)


def test_a_host_that_refuses_all(loop: LoopRun, origin: Path) -> None:
    hook(origin, "pre-receive", "echo closed today; exit 1")
    before = refs(origin)
    result = loop.wf("push")
    assert result.status == 128
    assert f"error: 'origin' refuses run {loop.run}: " in result.err
    assert "closed today" in result.err and "hint: " in result.err
    assert refs(origin) == before


def test_a_remote_without_atomic_pushes(loop: LoopRun, origin: Path) -> None:
    config(origin, "receive.advertiseAtomic", "false")
    loop.wf.ok("push")
    assert of_runs(origin) == own_refs(loop)


def test_a_server_that_vanishes(loop: LoopRun, origin: Path) -> None:
    hook(origin, "pre-receive", "kill -9 $PPID; exit 1")
    before = refs(origin)
    result = loop.wf("push")
    assert (result.status, result.out) == (128, "")
    assert result.err.startswith("error: remote 'origin': ") and "hint: " in result.err
    assert refs(origin) == before
    (origin / "hooks" / "pre-receive").unlink()
    loop.wf.ok("push")
    assert of_runs(origin) == own_refs(loop)


def test_half_a_run_is_not_taken(loop: LoopRun, origin: Path, other: Path) -> None:
    git("push", "-q", "origin", loop.branch, cwd=loop.repo)
    result = loop.wf("fetch", cwd=other)
    assert result.status == 128
    assert result.err.startswith(f"fatal: 'origin' has only a part of run {loop.run}: ")
    early = loop.metadata()[2]
    git("push", "-q", "origin", f"{early}:{loop.meta}", cwd=loop.repo)
    result = loop.wf("fetch", cwd=other)
    assert result.status == 128
    assert "its state is behind its branch" in result.err
    assert of_runs(other) == {}
    loop.wf.ok("push")
    loop.wf.ok("fetch", cwd=other)
    assert of_runs(other) == own_refs(loop)


def keep_all(path: Path) -> None:
    hook(path, "update", "case $1:$3 in refs/wf/par/*:000000*) exit 1;; esac")


def keep_branches(path: Path) -> None:
    """The parallel branches are branches there."""
    config(path, "transfer.hideRefs", "refs/wf")
    config(path, "receive.denyDeletes", "true")


@pytest.mark.parametrize(
    ("keep", "where"), [(keep_all, "refs/wf"), (keep_branches, "refs/heads/wf")]
)
def test_open_parallel_branches_travel(
    loop: LoopRun,
    origin: Path,
    other: Path,
    tmp_path: Path,
    keep: Callable[[Path], None],
    where: str,
) -> None:
    """Killed in the section, pushed, gone on with elsewhere, and ended at the remote too."""
    workflow, run = write_workflow(tmp_path / "par.dot", PARALLEL), run_id(9)
    killed = [sys.executable, "-m", "tests.killed", "fan@1/1-a publish", "1", str(workflow), run]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(killed, cwd=loop.repo, env=env, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    opened = {ref: oid for ref, oid in of_runs(loop.repo).items() if f"/{run}" in ref}
    assert any(ref.startswith("refs/wf/par/") for ref in opened)

    def there() -> dict[str, str]:
        """By the names that they have here; without the claim, which nobody has any more."""
        return {ref.replace(f"{where}/", "refs/wf/") if "/run/" not in ref[:19] else ref: oid
                for ref, oid in of_runs(origin).items() if "/claim/" not in ref}  # fmt: skip

    keep(origin)
    loop.wf.ok("push", "origin", run)
    assert there() == opened
    loop.wf.ok("fetch", cwd=other)
    assert of_runs(other) == opened
    loop.wf.ok("resume", run, cwd=other)
    ended = of_runs(other)
    result = loop.wf.ok("push", "origin", run, cwd=other)
    assert f"warning: 'origin' does not let '{where}/par/" in result.err
    assert {ref: oid for ref, oid in there().items() if "/par/" not in ref} == ended
    config(origin, "receive.denyDeletes", "false")
    hook(origin, "update", "exit 0")
    loop.wf.ok("push", "origin", run, cwd=other)
    assert there() == ended
    loop.wf.ok("fetch", "origin", run)
    assert {ref: oid for ref, oid in of_runs(loop.repo).items() if f"/{run}" in ref} == ended


@pytest.fixture
def daemon(origin: Path) -> Iterator[str]:
    """The same remote, served by `git daemon`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    served = subprocess.Popen(
        ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", "--export-all", "--verbose",
         "--enable=receive-pack", f"--base-path={origin.parent}", "--reuseaddr"],
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert served.stderr is not None
    served.stderr.readline()
    yield f"git://127.0.0.1:{port}/{origin.name}"
    os.killpg(served.pid, 15)
    served.wait()
    served.stderr.close()


@pytest.mark.parametrize("protocol", ["0", "2"])
def test_over_a_daemon(
    loop: LoopRun, daemon: str, other: Path, origin: Path, protocol: str
) -> None:
    for place in (loop.repo, other):
        config(place, "protocol.version", protocol)
        config(place, "remote.origin.url", daemon)
    loop.wf.ok("push")
    assert of_runs(origin) == own_refs(loop)
    loop.wf.ok("fetch", cwd=other)
    loop.wf.ok("rewind", "plan@1")
    loop.wf.ok("push")
    loop.wf.ok("pull", cwd=other)
    assert own_refs(loop).items() <= of_runs(other).items()


def test_which_remote(wf: Program, loop: LoopRun, tmp_path: Path) -> None:
    wf.fails(
        128, ["push"], "error: this repository has no remote\nhint: git remote add origin URL\n"
    )
    path = tmp_path / "elsewhere.git"
    git("init", "-q", "--bare", str(path), cwd=tmp_path)
    wf.ok("push", str(path), loop.run)
    assert of_runs(path) == own_refs(loop)
    git("remote", "add", "one", str(path), cwd=loop.repo)
    assert wf.ok("push").out == f"run {loop.run} is at one already\n"
    git("remote", "add", "two", str(path), cwd=loop.repo)
    assert wf("push").status == 128
    config(loop.repo, "remote.pushDefault", "two")
    assert wf.ok("push").out == f"run {loop.run} is at two already\n"
    result = wf("push", str(tmp_path / "nowhere.git"))
    assert result.status == 128
    assert result.err.startswith("error: remote '") and "hint: git remote -v" in result.err
    result = wf("fetch", "one", run_id(7))
    assert result.err == (
        f"error: 'one' has no run '{run_id(7)}'\n"
        "hint: git ls-remote one 'refs/heads/wf/run/*' lists them\n"
    )


def test_a_live_run_is_not_moved(loop: LoopRun, origin: Path, other: Path) -> None:
    from git_wf.store.files import Lock

    loop.wf.ok("push")
    loop.wf.ok("fetch", cwd=other)
    loop.wf.ok("rewind", "plan@1")
    loop.wf.ok("push")
    before = refs(other)
    lock = Lock(other / ".git" / "git-wf" / f"{loop.run}.lock", "process 1 on example.org")
    assert lock.acquire(0)
    try:
        result = loop.wf("pull", cwd=other)
    finally:
        lock.release()
    assert result.status == 128 and "is going on" in result.err
    assert refs(other) == before


def test_the_users_own_hook_is_asked(loop: LoopRun, origin: Path) -> None:
    hook(loop.repo / ".git", "pre-push", "echo no >&2; exit 1")
    result = loop.wf("push")
    assert result.status == 128 and "hint: " in result.err
    assert of_runs(origin) == {}


@pytest.fixture
def leaky(loop: LoopRun, origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoopRun:
    """A run with a token in a file, another in what a node said, and a declared secret."""
    body = f'a [script="echo; echo {TOKEN} >key; cat key"]\nstart -> a -> exit'
    loop.wf.ok("run", write_workflow(tmp_path / "leak.dot", body))
    return LoopRun(loop.wf, loop.repo, run_id(2))


def test_secrets_do_not_leave(leaky: LoopRun, origin: Path) -> None:
    result = leaky.wf("push")
    assert (result.status, result.out) == (128, "")
    assert TOKEN not in result.err
    assert f"error: {leaky.branch}:key:1: GitHub Token\n" in result.err
    assert f"error: {leaky.meta}:nodes/a/stdout.log:2: GitHub Token\n" in result.err
    assert "secrets found in what would leave this machine" in result.err
    assert of_runs(origin) == {}
    leaky.wf.ok("push", "--no-scan")
    assert of_runs(origin) == own_refs(leaky)


def test_a_declared_secret_does_not_leave(
    loop: LoopRun, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made a secret after it had been recorded."""
    loop.wf.ok("push")
    said = git("show", f"{loop.branch}:log", cwd=loop.repo)
    monkeypatch.setenv("MY_TOKEN", said)
    loop.wf.ok("rewind", "plan@1")
    loop.wf.ok("resume")
    result = loop.wf("push")
    assert result.status == 128
    assert f"error: {loop.branch}:log:1: declared secret\n" in result.err
    monkeypatch.delenv("MY_TOKEN")
    loop.wf.ok("push")
