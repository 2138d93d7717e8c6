from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program, run_id, write_workflow


def told(loop: LoopRun, status: str = "success") -> str:
    base, *commits = (commit[:9] for commit in loop.commits())
    return f"""\
run {loop.run}  loop  {status}
branch {loop.branch}, from {base}
@1  plan@1   success  0ms  1 file +1 -0  {commits[0]}  just now
@2  work@1   success  0ms  1 file +1 -0  {commits[1]}  just now
@3  check@1  fail     0ms  no change     {commits[2]}  just now
@4  plan@2   success  0ms  1 file +1 -0  {commits[3]}  just now
@5  work@2   success  0ms  1 file +1 -0  {commits[4]}  just now
@6  check@2  success  0ms  no change     {commits[5]}  just now
"""


def test_the_timeline(loop: LoopRun) -> None:
    result = loop.wf.ok("log")
    assert (result.out, result.err) == (told(loop), "")


@pytest.mark.parametrize("word", ["", "01Q3", "01q3", "wf/run/{}", "refs/heads/wf/run/{}", "{}"])
def test_a_run_is_named_in_every_way(loop: LoopRun, word: str) -> None:
    words = [word.format(loop.run)] if word else []
    assert loop.wf.ok("log", *words).out == told(loop)


def test_the_json_object(loop: LoopRun) -> None:
    base, *commits = loop.commits()
    _, *metadata = loop.metadata()
    seen = [
        ("plan", 1, "success", "work", 1),
        ("work", 1, "success", "check", 1),
        ("check", 1, "fail", "plan", 0),
        ("plan", 2, "success", "work", 1),
        ("work", 2, "success", "check", 1),
        ("check", 2, "success", "exit", 0),
    ]
    assert loop.wf.ok("log", "--json").json == {
        "format": 1,
        "run_id": loop.run,
        "dialect": "wf",
        "workflow": "loop",
        "status": "success",
        "finalized": True,
        "waiting": None,
        "base": base,
        "branch": loop.branch,
        "metadata_ref": loop.meta,
        "archived": False,
        "forked_from": None,
        "parent": None,
        "totals": {"duration_ms": 0, "retries": 0},
        "checkpoints": [
            {
                "ordinal": position + 1,
                "node": node,
                "visit": visit,
                "status": status,
                "recorded_status": status,
                "next_node_id": after,
                "commit": commits[position],
                "metadata_commit": metadata[position],
                "timestamp": "2030-01-02T03:04:05.000000Z",
                "duration_ms": 0,
                "merged": [],
                "notes": [],
                "files_changed": lines,
                "insertions": lines,
                "deletions": 0,
            }
            for position, (node, visit, status, after, lines) in enumerate(seen)
        ],
        "notices": [],
    }


def test_of_a_fork(loop: LoopRun) -> None:
    loop.wf.ok("fork", "plan@2")
    base, *commits = (commit[:9] for commit in loop.commits())
    assert (
        loop.wf.ok("log").out
        == f"""\
run {run_id(2)}  loop  interrupted
forked from run {loop.run} @4
branch wf/run/{run_id(2)}, from {base}
@1  plan@1   success  0ms  1 file +1 -0  {commits[0]}  just now
@2  work@1   success  0ms  1 file +1 -0  {commits[1]}  just now
@3  check@1  fail     0ms  no change     {commits[2]}  just now
@4  plan@2   success  0ms  1 file +1 -0  {commits[3]}  just now
"""
    )
    forked = loop.wf.ok("log", "--json").json["forked_from"]
    assert forked == {
        "run": loop.run,
        "commit": loop.commits()[4],
        "metadata_commit": loop.metadata()[4],
        "ordinal": 4,
    }


def test_a_run_that_failed(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = (
        'a [script="echo >&2 no; exit 3"]\nstart -> a\na -> exit [condition="outcome=success"]'
    )
    assert wf("run", write_workflow(tmp_path / "w.dot", workflow)).status == 1
    commit = git("rev-parse", "--short=9", f"wf/run/{run_id(1)}", cwd=repo)
    base = git("rev-parse", "--short=9", "HEAD", cwd=repo)
    assert (
        wf.ok("log").out
        == f"""\
run {run_id(1)}  w  fail
reason: exit status 3: no
branch wf/run/{run_id(1)}, from {base}
@1  a@1  fail  0ms  no change  {commit}  just now
"""
    )


def test_after_a_rewind_to_the_start(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@0")
    assert loop.wf.ok("log").out == (
        f"run {loop.run}  loop  interrupted\n"
        f"branch {loop.branch}, from {loop.commits()[0][:9]}\nno checkpoint yet\n"
    )


def test_commits_of_people_are_in_the_range_of_the_next_checkpoint(loop: LoopRun) -> None:
    """A look-alike made by hand is none of the run's checkpoints."""
    tree = loop.resolve(f"{loop.branch}^{{tree}}")
    text = git("log", "-1", "--format=%B", f"{loop.branch}~2", cwd=loop.repo)
    made = git("commit-tree", tree, "-p", loop.branch, "-m", text, cwd=loop.repo)
    git("update-ref", f"refs/heads/{loop.branch}", made, cwd=loop.repo)
    before = loop.wf.ok("log", "--json").json
    assert [one["node"] for one in before["checkpoints"]] == ["plan", "work", "check"] * 2


def test_without_runs(wf: Program) -> None:
    wf.fails(
        128,
        ["log"],
        "error: no runs in this repository\nhint: git wf run WORKFLOW starts one\n",
    )


def test_outside_a_repository(wf: Program, tmp_path: Path) -> None:
    wf.fails(
        128,
        ["log"],
        f"error: not a git repository: '{tmp_path}'\n"
        "hint: git init, then git commit, or git wf run --in-place WORKFLOW\n",
        cwd=tmp_path,
    )


@pytest.mark.parametrize(
    "word", ["nothing", "01ZZ", "wf/run/01Q3", "7" * 26, "wf/run/", "refs/heads/main", "\x1b[31m"]
)
def test_no_such_run(loop: LoopRun, word: str) -> None:
    shown = word.replace("\x1b", "")
    loop.wf.fails(
        128, ["log", word], f"error: no run matches '{shown}'\nhint: git wf runs lists them\n"
    )


def test_an_ambiguous_prefix(loop: LoopRun) -> None:
    loop.wf.ok("fork")
    loop.wf.fails(
        128,
        ["log", "01q3"],
        f"error: run '01q3' is ambiguous: it could be {loop.run}, {run_id(2)}\n"
        "hint: git wf runs lists them\n",
    )


def test_the_run_whose_branch_we_are_on(loop: LoopRun) -> None:
    loop.wf.ok("fork", "@1")
    git("switch", "-q", loop.branch, cwd=loop.repo)
    assert loop.wf.ok("log").out == told(loop)
    git("switch", "-q", "main", cwd=loop.repo)
    assert loop.wf.ok("log").out.startswith(f"run {run_id(2)} ")


def test_a_branch_of_the_user_beside_ours_is_no_run(loop: LoopRun) -> None:
    git("branch", "wf/run/zebra", cwd=loop.repo)
    git("branch", "wf/run/deeper/one", cwd=loop.repo)
    assert loop.wf.ok("log").out == told(loop)
    assert len(loop.wf.ok("runs", "--json").json["runs"]) == 1


class TestFromElsewhere:
    def test_a_subdirectory(self, loop: LoopRun) -> None:
        below = loop.repo / "a" / "b"
        below.mkdir(parents=True)
        assert loop.wf.ok("log", cwd=below).out == told(loop)

    def test_the_git_directory(self, loop: LoopRun) -> None:
        assert loop.wf.ok("log", cwd=loop.repo / ".git").out == told(loop)

    def test_a_linked_worktree(self, loop: LoopRun, tmp_path: Path) -> None:
        git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"), cwd=loop.repo)
        assert loop.wf.ok("log", cwd=tmp_path / "tree").out == told(loop)

    def test_a_bare_clone(self, loop: LoopRun, bare: Path) -> None:
        assert loop.wf.ok("log", cwd=bare).out == told(loop)

    def test_git_dir_of_the_environment(
        self, loop: LoopRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_DIR", str(loop.repo / ".git"))
        assert loop.wf.ok("log", cwd=tmp_path).out == told(loop)


class TestWhatIsMissing:
    def test_the_metadata_ref(self, loop: LoopRun) -> None:
        recorded = loop.resolve(f"{loop.meta}~1")
        git("update-ref", "-d", loop.meta, cwd=loop.repo)
        loop.wf.fails(
            128,
            ["log"],
            f"fatal: run {loop.run} has no metadata ref '{loop.meta}'\n"
            f"hint: git update-ref {loop.meta} {recorded} makes it again\n"
            f"hint: fetch it: {loop.fetch}\n",
        )
        git("update-ref", loop.meta, recorded, cwd=loop.repo)
        assert len(loop.wf.ok("log", "--json").json["checkpoints"]) == 6

    def test_the_run_branch(self, loop: LoopRun) -> None:
        base = loop.commits()[0][:9]
        git("update-ref", "-d", f"refs/heads/{loop.branch}", cwd=loop.repo)
        result = loop.wf.ok("log")
        assert result.out == (
            f"run {loop.run}  loop  success\nbranch {loop.branch}, from {base}\nno checkpoint yet\n"
        )
        assert result.err == "notice: no run branch: the metadata alone is shown\n"
        found = loop.wf.ok("log", "--json").json
        assert (found["branch"], found["metadata_ref"]) == (None, loop.meta)
        assert found["notices"] == ["no run branch: the metadata alone is shown"]

    def test_the_run_branch_is_ahead(self, loop: LoopRun) -> None:
        """As a crash between the two renames of a transaction leaves it."""
        git("update-ref", loop.meta, loop.metadata()[5], cwd=loop.repo)
        result = loop.wf.ok("log")
        assert result.out == told(loop, "interrupted")
        assert result.err == (
            "notice: the run branch is at @6, the metadata at @5: git wf resume joins them\n"
        )

    def test_the_run_branch_is_behind(self, loop: LoopRun) -> None:
        git("update-ref", f"refs/heads/{loop.branch}", loop.commits()[5], cwd=loop.repo)
        result = loop.wf.ok("log")
        assert result.err == "notice: the metadata is at @6, the run branch at @5\n"
        assert [line.split()[0] for line in result.out.splitlines()[2:]] == [
            "@1", "@2", "@3", "@4", "@5",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "content", "told"),
        [
            ("checkpoint.json", b"{ no", "read 'META:checkpoint.json': not valid JSON: Expecting "
             "property name enclosed in double quotes: line 1 column 3 (char 2)"),
            ("checkpoint.json", b"[]", "read 'META:checkpoint.json': not a JSON object"),
            ("checkpoint.json", b"{}",
             "read checkpoint 'META:checkpoint.json': no run_id or no current_node"),
            ("checkpoint.json", b'{"run_id": 3}',
             "read checkpoint 'META:checkpoint.json': 'run_id' has the wrong type"),
            ("run.json", b"\xff\xfe", "read 'META:run.json': not valid JSON: "),
            ("run.json", None, "run RUN has no run.json in its metadata"),
        ],
    )  # fmt: skip
    def test_a_corrupt_record(
        self, loop: LoopRun, name: str, content: bytes | None, told: str
    ) -> None:
        loop.replace_metadata(name, content)
        before = loop.refs()
        told = told.replace("META", loop.meta).replace("RUN", loop.run)
        for verb in ("log", "show", "rewind", "fork", "resume"):
            result = loop.wf(verb)
            assert (result.status, result.out) == (128, "")
            if told.endswith(" "):  # the rest is Python's
                assert result.err.startswith(f"fatal: {told}") and result.err.count("\n") == 1
            else:
                assert result.err == f"fatal: {told}\n", verb
        assert loop.refs() == before

    @pytest.mark.parametrize("name", ["checkpoint.json", "run.json"])
    def test_a_newer_format(self, loop: LoopRun, name: str) -> None:
        record = json.loads(git("show", f"{loop.meta}:{name}", cwd=loop.repo))
        loop.replace_metadata(name, json.dumps({**record, "format": 2}).encode())
        for verb in ("log", "show", "rewind", "fork", "resume"):
            loop.wf.fails(
                128,
                [verb],
                f"fatal: read '{loop.meta}:{name}': format 2 is newer than this git-wf knows (1)\n"
                "hint: upgrade git-wf\n",
            )

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("base_sha", None), ("base_sha", 3), ("lineage", {}), ("lineage", ["x"]),
            ("forked_from", "x"), ("labels", []), ("config", 1), ("inputs", "x"),
        ],
    )  # fmt: skip
    def test_a_record_with_wrong_types(self, loop: LoopRun, key: str, value: object) -> None:
        record = json.loads(git("show", f"{loop.meta}:run.json", cwd=loop.repo))
        loop.replace_metadata("run.json", json.dumps({**record, key: value}).encode())
        for verb in ("log", "show", "rewind", "fork", "resume"):
            loop.wf.fails(
                128,
                [verb],
                f"fatal: read '{loop.meta}:run.json': '{key}' is missing or has the wrong type\n",
            )

    def test_the_base_commit(self, loop: LoopRun) -> None:
        record = json.loads(git("show", f"{loop.meta}:run.json", cwd=loop.repo))
        loop.replace_metadata("run.json", json.dumps({**record, "base_sha": "1" * 40}).encode())
        result = loop.wf("log")
        assert (result.status, result.out) == (128, "")
        assert result.err == f"fatal: git log: fatal: bad object {'1' * 40}\n"

    def test_an_object(self, loop: LoopRun) -> None:
        """A metadata commit whose tree is not there."""
        gone = "1" * 40
        text = f"tree {gone}\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000"
        made = git(
            "hash-object", "-t", "commit", "-w", "--stdin", "--literally",
            cwd=loop.repo, stdin=f"{text}\n\nfinalize run\n".encode(),
        )  # fmt: skip
        git("update-ref", loop.meta, made, cwd=loop.repo)
        loop.wf.fails(128, ["log"], f"fatal: no object '{gone}'\n")


def test_plain_git_reads_the_same(loop: LoopRun) -> None:
    form = "%(trailers:key=WF-Node,valueonly,separator=)@%(trailers:key=WF-Visit,valueonly)"
    log = ["git", "log", "--reverse", f"--format={form}", loop.branch, "^main"]
    done = subprocess.run(log, cwd=loop.repo, capture_output=True, check=True)
    assert done.stdout.decode().split() == [
        "plan@1", "work@1", "check@1", "plan@2", "work@2", "check@2",
    ]  # fmt: skip


def test_the_newest_are_told_without_reading_all(
    loop: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a fork, whose first checkpoints are those of another run."""
    loop.wf.ok("fork", "check@1")
    loop.wf.ok("resume", run_id(2))
    runs = [loop.run, run_id(2)]
    whole = {run: loop.wf.ok("log", run, "--jsonl").out.splitlines() for run in runs}
    monkeypatch.setattr("git_wf.store.runs._SLACK", 1)
    monkeypatch.delattr("git_wf.store.runs.RunStore._own_timeline")
    for run in runs:
        for count in (1, 2):
            told = loop.wf.ok("log", run, "--jsonl", "-n", str(count)).out.splitlines()
            assert told == whole[run][-count:]
    monkeypatch.undo()
    for run in runs:
        for count in (3, 4, 5, 6, 7):
            told = loop.wf.ok("log", run, "--jsonl", "-n", str(count)).out.splitlines()
            assert told == whole[run][-count:]
