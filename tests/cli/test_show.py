from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program, run_id, write_workflow


def test_a_checkpoint(loop: LoopRun) -> None:
    commit, meta = loop.commits()[4], loop.metadata()[4]
    result = loop.wf.ok("show", "plan@2")
    assert result.err == ""
    assert (
        result.out
        == f"""\
plan@2  run {loop.run}
checkpoint  @4  2030-01-02T03:04:05.000000Z
status      success  0ms
commit      {commit}
metadata    {meta}
next        work

 log | 1 +
 1 file changed, 1 insertion(+)

trace, by git show:
  {meta}:nodes/plan-visit_2/script_invocation.json
  {meta}:nodes/plan-visit_2/script_timing.json
  {meta}:nodes/plan-visit_2/status.json
  {meta}:nodes/plan-visit_2/stderr.log
  {meta}:nodes/plan-visit_2/stdout.log
"""
    )
    for line in result.out.splitlines()[-5:]:  # what it promises
        git("show", line.strip(), cwd=loop.repo)


def test_a_failure(loop: LoopRun) -> None:
    lines = loop.wf.ok("show", "check@1").out.splitlines()
    assert lines[2] == "status      fail  0ms"
    assert lines[5:7] == ["failure     exit status 1 (deterministic)", "next        plan"]


def test_the_state_before_the_first_node(loop: LoopRun) -> None:
    assert (
        loop.wf.ok("show", "@0").out
        == f"""\
@0  run {loop.run}
the state before the first node
commit      {loop.commits()[0]}
metadata    {loop.metadata()[0]}
"""
    )


def test_the_json_object(loop: LoopRun) -> None:
    commits, metadata = loop.commits(), loop.metadata()
    record = json.loads(git("show", f"{metadata[3]}:checkpoint.json", cwd=loop.repo))
    assert record["git_commit_sha"] is None
    assert loop.wf.ok("show", "check@1", "--json").json == {
        "format": 1,
        "run_id": loop.run,
        "ordinal": 3,
        "node": "check",
        "visit": 1,
        "status": "fail",
        "recorded_status": "fail",
        "next_node_id": "plan",
        "commit": commits[3],
        "metadata_commit": metadata[3],
        "timestamp": "2030-01-02T03:04:05.000000Z",
        "duration_ms": 0,
        "merged": [],
        "notes": [],
        "files_changed": 0,
        "insertions": 0,
        "deletions": 0,
        "record": {**record, "git_commit_sha": commits[3]},
    }


def test_the_json_object_of_the_start(loop: LoopRun) -> None:
    assert loop.wf.ok("show", "@0", "--json").json == {
        "format": 1,
        "run_id": loop.run,
        "ordinal": 0,
        "node": "",
        "visit": 0,
        "status": "",
        "recorded_status": "",
        "next_node_id": None,
        "commit": loop.commits()[0],
        "metadata_commit": loop.metadata()[0],
        "timestamp": None,
        "duration_ms": None,
        "merged": [],
        "notes": [],
        "files_changed": 0,
        "insertions": 0,
        "deletions": 0,
        "record": None,
    }


TARGETS = [
    ("", 6), ("plan", 4), ("plan@1", 1), ("plan@2", 4), ("check@01", 3), ("@0", 0), ("@6", 6),
    ("@05", 5), ("0", 6), ("1", 5), ("00006", 0), ("work", 5), ("COMMIT4", 4), ("COMMIT0", 0),
    ("META2", 2), ("META0", 0), ("wf/run/RUN~2", 4),
    ("wf/meta/RUN~1", 6),
]  # fmt: skip


@pytest.mark.parametrize(("target", "ordinal"), TARGETS)
@pytest.mark.parametrize("with_run", [True, False])
def test_targets_of_every_form(loop: LoopRun, target: str, ordinal: int, with_run: bool) -> None:
    target = target.replace("RUN", loop.run)
    if target.startswith("COMMIT"):
        target = loop.commits()[int(target[6:])][:12]
    elif target.startswith("META"):
        target = loop.metadata()[int(target[4:])]
    words = [word for word in ([loop.run[:8].lower()] if with_run else []) + [target] if word]
    assert loop.wf.ok("show", *words, "--json").json["ordinal"] == ordinal


NOT_THERE = [
    ("@7", "no checkpoint '@7': the run has @1 to @6", "git wf log lists them"),
    ("7", "cannot go 7 checkpoints back: the run has 6", "@0 is the state before the first node"),
    ("plan@3", "no checkpoint 'plan@3'", "there is plan@1, plan@2"),
    ("plan@0", "no checkpoint 'plan@0'", "there is plan@1, plan@2"),
    ("plam", "no node 'plam' in the timeline", "did you mean 'plan'?"),
    ("plam@2", "no node 'plam' in the timeline", "did you mean 'plan'?"),
    ("zzz", "no node, ordinal or commit 'zzz' in the timeline", "git wf log lists them"),
    ("other", "commit 'other' is not one of the run", "git wf log lists them"),
    ("wf/run/nothing", "no run matches 'wf/run/nothing'", "git wf runs lists them"),
    ("7" * 26, f"no run matches '{'7' * 26}'", "git wf runs lists them"),
]


@pytest.mark.parametrize(("target", "told", "hint"), NOT_THERE)
@pytest.mark.parametrize("verb", ["show", "rewind", "fork"])
def test_what_is_not_there(loop: LoopRun, verb: str, target: str, told: str, hint: str) -> None:
    tree = loop.resolve("main^{tree}")
    other = git("commit-tree", tree, "-m", "other", cwd=loop.repo)
    git("update-ref", "refs/tags/other", other, cwd=loop.repo)
    before = loop.refs()
    loop.wf.fails(128, [verb, target], f"error: {told}\nhint: {hint}\n")
    assert loop.refs() == before


def test_too_many_words(loop: LoopRun) -> None:
    for verb in ("show", "rewind", "fork"):
        loop.wf.fails(
            129,
            [verb, "a", "b", "c"],
            f"error: {verb} takes a run and a target\nhint: git wf {verb} -h\n",
        )


def test_before_the_first_checkpoint(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "@0")
    loop.wf.fails(
        128,
        ["show"],
        f"error: run {loop.run} has no checkpoint yet\nhint: git wf resume goes on\n",
    )
    loop.wf.fails(
        128, ["show", "@1"],
        "error: no checkpoint '@1': the run has none yet, only '@0'\n"
        "hint: git wf resume goes on with the run\n",
    )  # fmt: skip
    assert loop.wf.ok("show", "@0").out.startswith("@0  run ")


class TestBothReadings:
    """`0123` can be the beginning of a run id, and a number of checkpoints."""

    @pytest.fixture
    def runs(self, wf: Program, repo: Path, tmp_path: Path) -> tuple[str, str]:
        """Ids that begin with a number; the default run has one checkpoint."""
        workflow = write_workflow(tmp_path / "w.dot", 'a [script=":"] start -> a -> exit')
        ids = ("0000100000000000000000000A", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
        for run in ids:
            wf.ok("run", "--id", run, workflow)
        return ids

    @pytest.mark.parametrize("verb", ["show", "rewind", "fork"])
    def test_both_fit(self, wf: Program, runs: tuple[str, str], verb: str) -> None:
        wf.fails(
            128,
            [verb, "00001"],
            f"error: '00001' is ambiguous: run {runs[0]}, or checkpoint @0 of run {runs[1]}\n"
            f"hint: git wf … {runs[1]} 00001 for the checkpoint\n"
            f"hint: git wf … wf/run/{runs[0]} for the run\n",
        )
        assert wf.ok("show", runs[1], "00001", "--json").json["ordinal"] == 0
        assert wf.ok("show", f"wf/run/{runs[0]}", "--json").json["run_id"] == runs[0]

    def test_only_the_run_fits(self, wf: Program, repo: Path, runs: tuple[str, str]) -> None:
        """The default run has no such checkpoint, or cannot be read."""
        fork = "0100000000000000000000000A"
        wf.ok("fork", runs[0], "--id", fork)
        assert wf.ok("show", "0100", "--json").json["run_id"] == fork
        git("update-ref", "-d", f"refs/wf/meta/{runs[1]}", cwd=repo)
        assert wf.ok("show", "00001", "--json").json["run_id"] == runs[0]
        assert wf.ok("show", runs[0], "--json").json["run_id"] == runs[0]

    def test_the_beginning_of_a_commit(self, wf: Program, runs: tuple[str, str]) -> None:
        commit = wf.ok("show", "--json").json["commit"]
        run = f"0{commit[:8]}".upper()  # no id begins so: made to be sure of the other reading
        assert wf.ok("show", commit[:9], "--json").json["commit"] == commit
        assert wf(*("show", run)).status == 128

    def test_a_run_and_a_commit(self, wf: Program, repo: Path, runs: tuple[str, str]) -> None:
        shown = wf.ok("show", "--json").json
        for number in range(4, 12):
            prefix = shown["commit"][:number].upper()
            if prefix[0] in "01234567" and not prefix.isdecimal():
                wf.ok("fork", runs[0], "--id", prefix.ljust(26, "0"))
                wf.fails(
                    128,
                    ["show", prefix.lower()],
                    f"error: '{prefix.lower()}' is ambiguous: run {prefix.ljust(26, '0')}, or "
                    f"checkpoint a@1 of run {runs[1]}\n"
                    f"hint: git wf … {runs[1]} {prefix.lower()} for the checkpoint\n"
                    f"hint: git wf … wf/run/{prefix.ljust(26, '0')} for the run\n",
                )
                return


def test_free_text_is_plain(wf: Program, repo: Path, tmp_path: Path) -> None:
    """Nothing that a program printed reaches the terminal as a control code."""
    workflow = write_workflow(
        tmp_path / "w.dot", "a [script=\"printf '\\\\033[31mred' >&2; exit 1\"]\nstart -> a -> exit"
    )
    wf("run", workflow)
    for verb in (["show"], ["log"], ["runs"]):
        assert "\x1b" not in wf.ok(*verb).out


def test_in_a_bare_clone(loop: LoopRun, bare: Path) -> None:
    assert loop.wf.ok("show", "work@2", cwd=bare).out == loop.wf.ok("show", "work@2").out


def test_of_a_fork(loop: LoopRun) -> None:
    """The source's checkpoints are its own, under the source's name in the record."""
    loop.wf.ok("fork", "plan@2")
    shown = loop.wf.ok("show", "@2", "--json").json
    assert (shown["run_id"], shown["record"]["run_id"]) == (run_id(2), loop.run)
