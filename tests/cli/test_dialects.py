"""Runs of Fabro and Arc on the command line: read as they are, forked, and never changed."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.foreign import GRAPH, RUN, Foreign, checkout, plain_run, record
from tests.program import Program, run_id
from tests.tree import ROOT

FIXTURES = ROOT.parent / "shared" / "fixtures"
FACTS = FIXTURES / "fabro-runs.facts.json"
TOLD = ("ordinal", "node", "visit", "recorded_status", "next_node_id", "commit",
        "metadata_commit", "notes")  # fmt: skip


@pytest.fixture
def theirs(tmp_path: Path) -> Foreign:
    one = plain_run(tmp_path / "theirs")
    checkout(one)
    return one


def all_refs(path: Path) -> str:
    return git("for-each-ref", cwd=path)


# Real runs.


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not FACTS.is_file():
        pytest.skip("the real runs of Fabro and Arc are not beside this project")
    folder = tmp_path_factory.mktemp("wild")
    with tarfile.open(FIXTURES / "fabro-runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "fabro-runs.git"


def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FACTS.read_text()) if FACTS.is_file() else {}
    return found


def shown_facts(told: dict[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in TOLD}


# What is to be said of each, beside its checkpoints.
OPEN = "not finalized: the run was interrupted, or goes on somewhere else"
LOST = "1 commit names metadata that is not there"
NO_BRANCH = "no run branch: what the metadata has is shown"
NO_REF = "no metadata ref: what the run branch has is shown"
WILD = {
    "01KKPHR5BRDJFSPTGW05SCH88D": ("unknown", [OPEN]),
    "01KKPTSEVJR1P4CYAYQSNGXRKA": ("success", []),
    "01KM4CCACXBP0M7KEEWK784ZD9": ("fail", []),
    "01KKQ2KT7BS1KVPN21GY9K0733": ("success", []),
    "01KP8XFY02RXHCR69H9FQ02X64": ("fail", []),
    "01KPBZ4VTTD2XYP0CB7KMZ1029": ("unknown", [OPEN]),
    "01KQRF98KVJANMHY45N67NTKPC": ("unknown", [LOST, OPEN]),
    "01KKS6PG9929P116A2RRKXC738": (
        "success", ["a commit of somebody else on top of the run's last one"],
    ),
    "01KMBJVE3Q1RQ8VAB3F9G8G0VD": ("success", []),
    "01KMN8XECFVGADEV9MEWEQ22NA": ("success", [NO_BRANCH]),
    "01KQF80KD0TSR4562GR8N9M3F4": ("unknown", [LOST, OPEN]),
    "01JTEST1234567890ABCDE": (
        "success",
        [NO_BRANCH, "the metadata ref holds 2 runs, one after the other: all of them are shown"],
    ),
    "01KM38Z61YSZ5G57F8WEQ3Y9KW": ("unknown", [NO_REF]),
    "01KKV8CABH5K1XHNFN40FB1PWM": ("unknown", [NO_REF, LOST]),
    "01KN4HMHREWRMBAXDTCRBHDK41": ("unknown", [NO_BRANCH]),
}  # fmt: skip
# Why a run cannot be forked, at its newest checkpoint; the others can.
NO_GRAPH = (
    "error: run {run} has no graph in its metadata\nhint: git wf run WORKFLOW starts another\n"
)
NO_STATE = (
    "error: run {run} has no metadata ref, and so no graph to go on with\n"
    "hint: git fetch it from where the run was made\n"
)
UNFORKED = {
    "01KM4CCACXBP0M7KEEWK784ZD9": NO_GRAPH,  # the file is there, and empty
    "01KQRF98KVJANMHY45N67NTKPC": "error: checkpoint fmt@1 has no metadata: it cannot be forked "
    "from\nhint: git wf fork {run} @4 starts from the newest that has\n",
    "01KMN8XECFVGADEV9MEWEQ22NA": NO_GRAPH,
    "01KQF80KD0TSR4562GR8N9M3F4": "error: checkpoint greet@1 has no metadata: it cannot be forked "
    "from\nhint: git wf fork {run} @0 starts from the newest that has\n",
    "01JTEST1234567890ABCDE": "error: checkpoint report@1 has no run commit: it cannot be forked "
    "from\nhint: git wf log {run} tells what there is\n",
    "01KM38Z61YSZ5G57F8WEQ3Y9KW": NO_STATE,
    "01KKV8CABH5K1XHNFN40FB1PWM": NO_STATE,
    "01KN4HMHREWRMBAXDTCRBHDK41": "error: checkpoint @0 has no run commit: it cannot be forked "
    "from\nhint: git wf log {run} tells what there is\n",
}


def test_every_real_run_has_its_facts(wild: Path) -> None:
    assert sorted(facts()) == sorted(WILD)


@pytest.mark.parametrize("run", WILD)
def test_log_of_a_real_run(wf: Program, wild: Path, run: str) -> None:
    expected = facts()[run]
    told = wf.ok("log", run, "--json", cwd=wild).json
    assert [shown_facts(one) for one in told["checkpoints"]] == expected["expected"]
    status, notices = WILD[run]
    assert (told["dialect"], told["status"], told["notices"]) == ("fabro", status, notices)
    assert told["finalized"] == expected["finalized"]
    for key, ref in (("branch", expected["run_ref"]), ("metadata_ref", expected["meta_ref"])):
        assert told[key] == (ref.removeprefix("refs/heads/") if ref and key == "branch" else ref)
    assert wf.ok("log", run, cwd=wild).err == "".join(f"notice: {one}\n" for one in notices)


def test_runs_lists_the_real_ones(wf: Program, wild: Path) -> None:
    told = {one["run_id"]: one for one in wf.ok("runs", "--json", cwd=wild).json["runs"]}
    assert sorted(told) == sorted(WILD)
    for run, one in told.items():
        expected = facts()[run]["expected"]
        assert one["checkpoints"] == len(expected)
        assert one["current_node"] == (expected[-1]["node"] if expected else None)
        assert (one["status"], one["notes"]) == (
            WILD[run][0], ["; ".join(WILD[run][1])] if WILD[run][1] else [],
        )  # fmt: skip


@pytest.mark.parametrize("run", WILD)
def test_show_and_inspect_of_a_real_run(wf: Program, wild: Path, run: str) -> None:
    for one in facts()[run]["expected"]:
        told = wf.ok("show", run, f"@{one['ordinal']}", "--json", cwd=wild).json
        assert shown_facts(told) == one
        if one["metadata_commit"] is None:
            assert told["record"] is None
            continue
        assert told["record"]["current_node"] == one["node"]
        assert told["record"]["git_commit_sha"] == one["commit"]
        if one["ordinal"] == 1:
            assert wf.ok("inspect", run, "@1", "--json", cwd=wild).json == told


@pytest.mark.parametrize("run", WILD)
def test_verify_of_a_real_run(wf: Program, wild: Path, run: str) -> None:
    """A problem for each note of a checkpoint, and one for all else that is missing."""
    expected = facts()[run]
    result = wf("verify", run, "--json", cwd=wild)
    (told,) = result.json["runs"]
    notes = [
        (one["commit"] or one["metadata_commit"], f"{one['node']}@{one['visit']}: {note}")
        for one in expected["expected"]
        for note in one["notes"]
    ]
    missing = [text for text in WILD[run][1] if text in (LOST, NO_BRANCH, NO_REF)]
    found = [(one["commit"], one["problem"]) for one in told["problems"]]
    assert found[: len(notes)] == notes
    assert [text for _, text in found[len(notes) :]] == missing
    assert (told["ok"], result.status) == ((False, 1) if found else (True, 0))
    assert told["commits"] == sum(
        (one["commit"] is not None) + (one["metadata_commit"] is not None)
        for one in expected["expected"]
    )


def test_verify_of_all_real_runs(wf: Program, wild: Path) -> None:
    told = wf("verify", "--json", cwd=wild).json["runs"]
    assert sorted(one["run_id"] for one in told) == sorted(WILD)


@pytest.mark.parametrize("run", WILD)
def test_diff_of_a_real_run(wf: Program, wild: Path, run: str) -> None:
    """The first two checkpoints, in files and in state."""
    told = facts()[run]["expected"]
    if len(told) < 2:
        result = wf("diff", run, "@1", "@2", cwd=wild)
        assert (result.status, result.out) == (128, "")
        assert result.err.startswith("error: ")
        return
    first, second = told[:2]
    words = ["diff", run, f"@{first['ordinal']}", f"@{second['ordinal']}"]
    if first["commit"] is None or second["commit"] is None:
        assert "has no run commit" in wf(*words, cwd=wild).err
    else:
        plain = git("diff", "--raw", first["commit"], second["commit"], cwd=wild)
        assert wf.ok(*words, "--", "--raw", cwd=wild).out.strip() == plain
    result = wf(*words, "--state", "--json", cwd=wild)
    if first["metadata_commit"] is None or second["metadata_commit"] is None:
        assert "has no metadata" in result.err
    else:
        assert result.status == 0, result.err


@pytest.mark.parametrize("run", WILD)
def test_fork_of_a_real_run(wf: Program, wild: Path, tmp_path: Path, run: str) -> None:
    place = tmp_path / "copy.git"
    shutil.copytree(wild, place)
    before = all_refs(place)
    result = wf("fork", run, cwd=place)
    if run in UNFORKED:
        assert (result.status, result.err) == (128, UNFORKED[run].format(run=run))
        assert all_refs(place) == before
        return
    assert result.status == 0, result.err
    new = result.out.strip()
    checkpoints = wf.ok("log", new, "--json", cwd=place).json["checkpoints"]
    assert [shown_facts(one) for one in checkpoints] == facts()[run]["expected"]
    # Theirs are as they were; ours are new.
    now = all_refs(place).splitlines()
    assert [line for line in now if new not in line] == before.splitlines()


# Runs made here.


def test_log_of_a_run_of_theirs(wf: Program, theirs: Foreign) -> None:
    first, second = theirs.commits
    assert wf.ok("log", cwd=theirs.path).out == (
        f"run {RUN}  Loop  success\n"
        "recorded by Fabro\n"
        f"branch fabro/run/{RUN}, from {theirs.base[:9]}\n"
        f"@1  plan@1  success  1.5s  1 file +1 -0  {first[:9]}  1389 days ago\n"
        f"@2  work@1  success  1.5s  1 file +1 -0  {second[:9]}  1389 days ago\n"
    )


def test_a_record_tells_of_nothing_that_is_not_known(wf: Program, tmp_path: Path) -> None:
    one = Foreign.begin(tmp_path / "theirs")
    one.record_metadata("init run", {})
    one.record_metadata("checkpoint", {"checkpoint.json": record("work")})
    told = wf.ok("log", "--json", cwd=one.path).json
    assert (told["base"], told["branch"], told["workflow"]) == (None, None, None)
    checkpoint = told["checkpoints"][0]
    keys = ("commit", "files_changed", "insertions", "deletions")
    assert [checkpoint[key] for key in keys] == [None] * 4
    assert "no run commit\n" in wf.ok("log", cwd=one.path).out


def test_show_has_the_trace_of_the_visit(wf: Program, theirs: Foreign) -> None:
    told = wf.ok("show", "work", cwd=theirs.path).out
    metadata = theirs.metadata[3]
    assert told.endswith(
        "trace, by git show:\n"
        f"  {metadata}:nodes/work/status.json\n"
        f"  {metadata}:nodes/work/stdout.log\n"
    )


def test_graph_draws_it(wf: Program, theirs: Foreign) -> None:
    told = wf.ok("graph", RUN, "--json", cwd=theirs.path).json
    assert told["run_id"] == RUN
    assert [node["id"] for node in told["nodes"]] == ["start", "exit", "plan", "work"]


@pytest.mark.parametrize("verb", ["rewind", "resume", "rm", "archive"])
def test_what_changes_runs_says_whose_it_is(wf: Program, theirs: Foreign, verb: str) -> None:
    before = all_refs(theirs.path)
    wf.fails(
        128, [verb, RUN[:10]],
        f"error: run {RUN} is Fabro's: git-wf only reads it\n"
        f"hint: git wf fork {RUN} starts a run of ours from it\n",
        cwd=theirs.path,
    )  # fmt: skip
    assert all_refs(theirs.path) == before


def test_prune_leaves_them_alone(wf: Program, theirs: Foreign) -> None:
    before = all_refs(theirs.path)
    for namespace in ("wf", "fabro", "arc"):
        git("config", "wf.namespace", namespace, cwd=theirs.path)
        wf.ok("prune", "--older-than", "1s", "--unfinished", cwd=theirs.path)
        wf.ok("prune", "--keep", "0", cwd=theirs.path)
    assert all_refs(theirs.path) == before


# Forks.


@pytest.fixture
def forked(wf: Program, theirs: Foreign) -> Iterator[Foreign]:
    """With a fork from `plan@1`: its id is `run_id(1)`."""
    wf.ok("fork", RUN, "plan", cwd=theirs.path)
    yield theirs


def test_a_fork_is_a_run_of_ours(wf: Program, forked: Foreign) -> None:
    new = run_id(1)
    meta = f"refs/wf/meta/{new}"
    listed = git("ls-tree", "-r", "--name-only", meta, cwd=forked.path).splitlines()
    assert listed == [
        "checkpoint.json", "graph.dot", "manifest.json", "nodes/plan/status.json",
        "nodes/plan/stdout.log", "run.json", "start.json",
    ]  # fmt: skip
    made = json.loads(git("show", f"{meta}:run.json", cwd=forked.path))
    origin = {
        "run": RUN, "dialect": "fabro", "ordinal": 1, "commit": forked.commits[0],
        "metadata_commit": forked.metadata[2],
    }  # fmt: skip
    assert (made["format"], made["run_id"], made["forked_from"]) == (1, new, origin)
    assert (made["lineage"], made["base_sha"], made["goal"]) == ([origin], forked.base, "try it")
    told = wf.ok("log", "--json", cwd=forked.path).json
    assert (told["run_id"], told["dialect"], told["status"]) == (new, "wf", "interrupted")
    state = json.loads(git("show", f"{meta}:checkpoint.json", cwd=forked.path))
    assert (state["format"], state["ordinal"], state["git_commit_sha"]) == (1, 1, None)
    assert "internal.run_id" not in state["context_values"]


def test_a_fork_goes_on(wf: Program, forked: Foreign) -> None:
    before = [line for line in all_refs(forked.path).splitlines() if run_id(1) not in line]
    wf.ok("resume", cwd=forked.path)
    told = wf.ok("log", "--json", cwd=forked.path).json
    assert (told["status"], told["notices"]) == ("success", [])
    assert [(one["ordinal"], one["node"], one["visit"]) for one in told["checkpoints"]] == [
        (1, "plan", 1), (2, "work", 1),
    ]  # fmt: skip
    branch = f"wf/run/{run_id(1)}"
    assert git("show", f"{branch}:work.txt", cwd=forked.path) == "worked"
    assert git("rev-parse", f"{branch}~1", cwd=forked.path) == forked.commits[0]
    last = wf.ok("inspect", "--json", cwd=forked.path).json["record"]
    assert last["completed_nodes"] == ["start", "plan", "work"]
    assert last["previous"]["metadata_commit"] == forked.metadata[2]
    assert [line for line in all_refs(forked.path).splitlines() if run_id(1) not in line] == before
    git("fsck", "--strict", cwd=forked.path)


def test_a_fork_is_rewound_to_what_is_theirs(wf: Program, forked: Foreign) -> None:
    wf.ok("resume", cwd=forked.path)
    for target, entries in (("plan", ["plan@1"]), ("@0", [])):
        wf.ok("rewind", run_id(1), target, cwd=forked.path)
        told = wf.ok("log", run_id(1), "--json", cwd=forked.path).json["checkpoints"]
        assert [f"{one['node']}@{one['visit']}" for one in told] == entries
    wf.ok("resume", cwd=forked.path)
    told = wf.ok("log", "--json", cwd=forked.path).json["checkpoints"]
    assert [one["node"] for one in told] == ["plan", "work"]


def test_an_undo_after_a_rewind_to_what_is_theirs(wf: Program, forked: Foreign) -> None:
    wf.ok("resume", cwd=forked.path)
    tip = git("rev-parse", f"wf/run/{run_id(1)}", cwd=forked.path)
    wf.ok("rewind", run_id(1), "plan", cwd=forked.path)
    wf.ok("undo", cwd=forked.path)
    assert git("rev-parse", f"wf/run/{run_id(1)}", cwd=forked.path) == tip


def test_a_fork_of_a_fork(wf: Program, forked: Foreign) -> None:
    wf.ok("resume", cwd=forked.path)
    wf.ok("fork", run_id(1), "plan", cwd=forked.path)
    wf.ok("resume", run_id(2), cwd=forked.path)
    told = wf.ok("log", run_id(2), "--json", cwd=forked.path).json["checkpoints"]
    assert [one["node"] for one in told] == ["plan", "work"]
    assert told[0]["commit"] == forked.commits[0]


def test_a_fork_from_before_the_first_node(wf: Program, theirs: Foreign) -> None:
    wf.ok("fork", RUN, "@0", cwd=theirs.path)
    wf.ok("resume", cwd=theirs.path)
    told = wf.ok("log", "--json", cwd=theirs.path).json
    assert [one["node"] for one in told["checkpoints"]] == ["plan", "work"]
    assert told["base"] == theirs.base


def test_a_dry_run_of_a_fork_makes_the_same(wf: Program, theirs: Foreign, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git("clone", "-q", "--mirror", str(theirs.path), str(copy), cwd=tmp_path)
    script = wf.ok("fork", RUN, "plan", "--id", run_id(9), "--dry-run", cwd=theirs.path).out
    path = tmp_path / "script"
    path.write_text(script)
    done = os.system(f"cd '{copy}' && sh '{path}' >/dev/null")
    assert done == 0
    assert run_id(9) in all_refs(copy)
    assert wf.ok("log", run_id(9), "--json", cwd=copy).json["checkpoints"][0]["node"] == "plan"


def test_the_rest_of_a_prompt_is_where_it_was(wf: Program, tmp_path: Path) -> None:
    """A file that a prompt is in is found in the run's commit, where only one has its path."""
    one = Foreign.begin(tmp_path / "theirs")
    graph = (
        "digraph G {\n  start [shape=Mdiamond]\n  exit [shape=Msquare]\n"
        '  a [shape=parallelogram, script="true"]\n'
        '  b [prompt="@prompts/b.md"]\n  c [prompt="@prompts/c.md"]\n'
        "  start -> a -> b -> c -> exit\n}\n"
    )
    one.record_metadata("init run", {"graph.fabro": graph})
    one.record_metadata("checkpoint", {"graph.fabro": graph, "checkpoint.json": record("a")})
    one.commit("a", files={"flows/prompts/b.md": "do b\n"})
    told = wf.ok("fork", cwd=one.path)
    assert told.err.startswith(
        "notice: file reference does not exist: '@prompts/c.md': node 'c' gets this name as its "
        "prompt\n"
    )
    text = git("show", f"refs/wf/meta/{run_id(1)}:graph.dot", cwd=one.path)
    assert 'b [prompt="do b"]' in text and 'c [prompt="@prompts/c.md"]' in text


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        ("", NO_GRAPH),
        (
            "digraph G { a b [shape=Msquare] a -> b }",
            "error: run {run} cannot be forked: its workflow is not valid: no start node: 0 found, "
            "a workflow has exactly one\nhint: git wf graph {run} --format text shows it\n",
        ),
    ],
)  # fmt: skip
def test_a_graph_that_nothing_can_go_on_with(
    wf: Program, tmp_path: Path, graph: str, why: str
) -> None:
    one = Foreign.begin(tmp_path / "theirs")
    files = {"graph.fabro": graph, "checkpoint.json": record("work")}
    named = one.record_metadata("checkpoint", files)
    one.commit("work", checkpoint=named)
    before = all_refs(one.path)
    wf.fails(128, ["fork"], why.format(run=RUN), cwd=one.path)
    assert all_refs(one.path) == before


# Namespaces.


@pytest.mark.parametrize("namespace", ["fabro", "studio"])
def test_a_run_of_ours_in_another_namespace(wf: Program, repo: Path, namespace: str) -> None:
    git("config", "wf.namespace", namespace, cwd=repo)
    (repo / "w.dot").write_text(
        "digraph G { start [shape=Mdiamond] exit [shape=Msquare]\n"
        'a [shape=parallelogram, script="echo a >a.txt"] start -> a -> exit }\n'
    )
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "w", cwd=repo)
    wf.ok("run", "w.dot")
    run, word = run_id(1), namespace.capitalize()
    assert set(git("for-each-ref", "--format=%(refname)", cwd=repo).splitlines()) == {
        f"refs/heads/{namespace}/run/{run}", "refs/heads/main", f"refs/{namespace}/meta/{run}",
    }  # fmt: skip
    branch = f"{namespace}/run/{run}"
    assert git("log", "-1", "--format=%s", branch, cwd=repo) == f"{namespace}({run}): a (success)"
    trailers = git("log", "-1", "--format=%(trailers:only,unfold)", branch, cwd=repo).splitlines()
    assert [line.split(":")[0] for line in trailers if line] == [
        f"{word}-Run", f"{word}-Completed", f"{word}-Checkpoint", f"{word}-Node", f"{word}-Visit",
        f"{word}-Status",
    ]  # fmt: skip
    told = wf.ok("log", "--json").json
    assert (told["dialect"], told["branch"]) == ("wf", branch)
    assert [one["notes"] for one in told["checkpoints"]] == [[]]
    wf.ok("fork", run, "a")
    wf.ok("rewind", run)
    wf.ok("resume", run)
    wf.ok("verify")
    git("config", "--unset", "wf.namespace", cwd=repo)
    if namespace == "fabro":  # readers always look there
        assert wf.ok("log", run, "--json").json["branch"] == branch
        assert {one["run_id"] for one in wf.ok("runs", "--json").json["runs"]} == {run, run_id(2)}
        wf.fails(
            128, ["rewind", run],
            f"error: run {run} is in namespace 'fabro', not in 'wf'\n"
            f"hint: git -c wf.namespace=fabro wf … {run}\n",
        )  # fmt: skip
        wf.ok("fork", run, "a")
        forked = wf.ok("log", run_id(3), "--json").json
        assert (forked["branch"], len(forked["checkpoints"])) == (f"wf/run/{run_id(3)}", 1)


def test_ours_and_theirs_in_one_namespace(wf: Program, theirs: Foreign) -> None:
    """`wf.namespace=fabro`, and runs of Fabro's in the same directories of refs."""
    git("config", "wf.namespace", "fabro", cwd=theirs.path)
    wf.ok("fork", RUN, "plan", cwd=theirs.path)
    wf.ok("resume", cwd=theirs.path)
    told = wf.ok("runs", "--json", cwd=theirs.path).json["runs"]
    assert [(one["run_id"], one["dialect"], one["status"]) for one in told] == [
        (run_id(1), "wf", "success"), (RUN, "fabro", "success"),
    ]  # fmt: skip
    wf.ok("log", run_id(1), cwd=theirs.path)
    wf.fails(
        128, ["rm", RUN],
        f"error: run {RUN} is Fabro's: git-wf only reads it\n"
        f"hint: git wf fork {RUN} starts a run of ours from it\n",
        cwd=theirs.path,
    )  # fmt: skip


# Going on with one by the name of its branch.


def arcs_own(path: Path, following: str = "work") -> Foreign:
    """Arc's first layout: `refs/arc/<id>` with manifest.json, graph.dot and checkpoint.json."""
    one = Foreign.begin(path, dialect="arc")
    files: dict[str, Any] = {
        "graph.dot": GRAPH,
        "manifest.json": {"run_id": RUN, "workflow_name": "Loop", "goal": "try it"},
    }
    ref = f"refs/arc/{RUN}"
    one.record_metadata("init run", files, ref=ref, credit=False)
    files["checkpoint.json"] = record("plan", visits={"plan": 1}, next_node_id=following)
    named = one.record_metadata("checkpoint", files, ref=ref, credit=False)
    one.commit("plan", checkpoint=named, files={"plan.txt": "planned\n"})
    return one


@pytest.mark.parametrize("word", ["arc/run/{}", "refs/heads/arc/run/{}", "{}"])
def test_a_run_of_arcs_goes_on_by_its_branch(wf: Program, tmp_path: Path, word: str) -> None:
    one = arcs_own(tmp_path / "arcs")
    checkout(one)
    before = all_refs(one.path)
    result = wf.ok("run", "--run-branch", word.format(RUN), cwd=one.path)
    assert f"run {run_id(1)} goes on from plan@1 of {RUN}\n" in result.err
    told = wf.ok("log", "--json", cwd=one.path).json
    assert (told["run_id"], told["status"], told["forked_from"]["run"]) == (
        run_id(1), "success", RUN,
    )  # fmt: skip
    assert [f"{entry['node']}@{entry['visit']}" for entry in told["checkpoints"]] == [
        "plan@1", "work@1",
    ]  # fmt: skip
    assert git("show", f"wf/run/{run_id(1)}:work.txt", cwd=one.path) == "worked"
    after = all_refs(one.path).splitlines()
    assert [line for line in after if run_id(1) not in line] == before.splitlines()


def test_one_that_cannot_be_gone_on_with_is_not_forked(wf: Program, tmp_path: Path) -> None:
    one = arcs_own(tmp_path / "arcs")
    checkout(one)
    git("update-ref", "-d", f"refs/arc/{RUN}", cwd=one.path)
    before = all_refs(one.path)
    result = wf("run", "--run-branch", f"arc/run/{RUN}", cwd=one.path)
    assert (result.status, result.err) == (128, NO_STATE.format(run=RUN))
    assert all_refs(one.path) == before
