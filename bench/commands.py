"""What the program costs as a whole process, and what its ref operations cost inside one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from shutil import which

from bench.checkpoints import PROGRAM, Bench, one_commit
from bench.compare import Action, Figure, compare
from bench.grounds import Place, live_run, run_id
from git_wf.core.checkpoint import Checkpoint, dump_json
from git_wf.core.names import Names, Oid
from git_wf.core.outcome import Outcome
from git_wf.core.summary import summary_trailers
from git_wf.core.trailers import RunCommitFields, metadata_message, run_commit_message
from git_wf.ops.host import Host, SystemClock
from git_wf.ops.project import Project, open_project
from git_wf.ops.rewind import plan_rewind
from git_wf.ops.select import select
from git_wf.store.objects import Commit, Entry, encode_commit, encode_tree
from git_wf.store.packs import Pack
from git_wf.store.plans import RefPlan, apply_plan

WHO = "Ada Author <ada@example.com> 1893553445 +0000"
BARE = (sys.executable, "-c", "pass")


def process(place: Place, *command: str | Path) -> Action:
    """A whole process, its output thrown away."""
    words = [os.fspath(word) for word in command]

    def call() -> None:
        subprocess.run(words, cwd=place.top, env=place.env, check=False, stdout=subprocess.DEVNULL)

    return call


def starting(bench: Bench) -> Iterator[Figure]:
    place = bench.place(100)
    bare = process(place, *BARE)
    for words, limit in ((["--version"], 1.5), (["-h"], 12.0)):
        found = compare(bare, process(place, *PROGRAM, *words), bench.rounds(21))
        yield found.figure(f"git-wf {' '.join(words)}", limit)


def reading(bench: Bench) -> Iterator[Figure]:
    place = bench.place(100)
    few, many = (100, 1000) if bench.quick else (100, 10_000)
    runs = {count: make_run(place, 1000 + count, count) for count in (few, many)}
    bare = process(place, *BARE)
    for count, run in runs.items():
        found = compare(bare, process(place, *PROGRAM, "log", run, "-n", "20"), bench.rounds(15))
        yield found.figure(f"git wf log -n 20, of {count:,} checkpoints", 6.0)
    branch = f"wf/run/{runs[many]}"
    found = compare(
        process(place, "git", "log", "--format=%H %P %ct %B", f"main..{branch}"),
        process(place, *PROGRAM, "log", runs[many]),
        bench.rounds(9),
    )
    yield found.figure(f"git wf log of {many:,} checkpoints, against git log", 1.6)


def listing(bench: Bench) -> Iterator[Figure]:
    place = bench.place(100)
    count = 1000 if bench.quick else 10_000
    make_runs(place, 20_000, count)
    found = compare(
        process(place, "git", "for-each-ref"),
        process(place, *PROGRAM, "runs"),
        bench.rounds(9),
    )
    yield found.figure(f"git wf runs of {count:,} runs, against git for-each-ref", 4.0)
    with live_run(place, 8) as run:
        beside = compare(
            lambda: one_commit(place),
            run.checkpoint,
            bench.rounds(30),
            before_base=lambda: place.edit(place.top, 10),
            before_ours=lambda: run.visit(10),
            warm_up=2,
        )
    yield beside.figure(f"a checkpoint beside {count:,} other runs, 100 files", 1.0)


def ref_operations(bench: Bench) -> Iterator[Figure]:
    """Rewinds by one checkpoint inside this process: objects, and refs in one transaction."""
    for files, checkpoints in ((100, 100), (bench.sizes[-1], 1000 if bench.quick else 10_000)):
        place = bench.place(files)
        run = make_run(place, 3000 + checkpoints, checkpoints)
        project = open_project(Host(place.top, place.env, SystemClock()))
        try:
            rewinds = _Rewinds(project, run)
            found = compare(
                process(place, "git", "rev-parse", "HEAD"),
                rewinds.apply,
                bench.rounds(30),
                before_ours=rewinds.prepare,
            )
        finally:
            project.close()
        yield found.figure(f"rewind, of {checkpoints:,} checkpoints", 2.5)


class _Rewinds:
    """The plan is made before the clock starts; what is timed is the change of the repository."""

    def __init__(self, project: Project, run: str) -> None:
        self.project = project
        self.run = run
        self.identity = project.identity  # asked for before the clock starts
        self.plan: RefPlan | None = None

    def prepare(self) -> None:
        selected = select(self.project, [self.run])
        entry = selected.entry(self.project, default="1")  # one back
        self.plan = plan_rewind(self.project, selected, entry, self.project.clock.now())

    def apply(self) -> None:
        assert self.plan is not None
        moment, names = self.project.clock.now(), self.project.settings.names
        apply_plan(self.project.repo, self.plan, self.identity, moment, names=names)


# Runs as the program records them, made without it.


def make_run(place: Place, number: int, checkpoints: int) -> str:
    """A finished run of many checkpoints, in one pack; its id."""
    project = open_project(Host(place.top, place.env, SystemClock()))
    try:
        run = run_id(number)
        pack = Pack(project.repo)
        base = Oid(place.git("rev-parse", "main").decode().strip())
        maker = _Maker(pack, project, run, base)
        for ordinal in range(1, checkpoints + 1):
            maker.add(ordinal)
        kept = pack.write()
        assert kept is not None
        with kept:
            maker.publish(place)
        return run
    finally:
        project.close()


def make_runs(place: Place, first: int, count: int) -> None:
    """Many runs of no checkpoint each, their refs packed."""
    project = open_project(Host(place.top, place.env, SystemClock()))
    try:
        base = Oid(place.git("rev-parse", "main").decode().strip())
        pack = Pack(project.repo)
        makers = [_Maker(pack, project, run_id(first + number), base) for number in range(count)]
        kept = pack.write()
        assert kept is not None
        with kept:
            lines = "".join(maker.lines() for maker in makers)
            place.git("update-ref", "--stdin", stdin=lines.encode())
        place.git("pack-refs", "--all")
    finally:
        project.close()


class _Maker:
    """The two chains of a run, commit by commit."""

    def __init__(self, pack: Pack, project: Project, run: str, base: Oid) -> None:
        self.pack = pack
        self.format = project.repo.object_format
        self.names: Names = project.settings.names
        self.run = run
        self.tree = project.store.reader.read_commit(base).tree
        self.tip = base
        record = {
            "format": 1, "run_id": run, "base_sha": base, "base_branch": "main", "lineage": [],
            "created_at": "2030-01-02T03:04:05.000000Z", "workflow_slug": "w", "goal": "",
            "labels": {}, "inputs": {}, "config": {}, "forked_from": None,
        }  # fmt: skip
        self.root = {
            b"run.json": Entry("100644", pack.add("blob", dump_json(record))),
            b"graph.dot": Entry("100644", pack.add("blob", b"digraph G {}\n")),
        }
        self.summary = summary_trailers(record)
        message = metadata_message(self.names, run, "init run", self.summary)
        self.meta = self._commit(self._tree(), (), message)

    def add(self, ordinal: int) -> None:
        node = f"node_{ordinal % 7}"
        visit = (ordinal + 6) // 7
        checkpoint = Checkpoint(
            self.run,
            ordinal=ordinal,
            timestamp="2030-01-02T03:04:05.000000Z",
            current_node=node,
            next_node_id="node_0",
            completed_nodes=[node],
            node_visits={node: visit},
            node_outcomes={node: Outcome("success", notes=f"did {ordinal}")},
        )
        data = dump_json(checkpoint.to_json())
        self.root[b"checkpoint.json"] = Entry("100644", self.pack.add("blob", data))
        message = metadata_message(
            self.names, self.run, f"checkpoint {node}@{visit}", self.summary, Ordinal=str(ordinal),
            Next="node_0", Duration_Ms="7",
        )  # fmt: skip
        self.meta = self._commit(self._tree(), (self.meta,), message)
        fields = RunCommitFields(self.run, node, visit, "success", ordinal, self.meta)
        text = run_commit_message(self.names, fields, f"did {ordinal}")
        self.tip = self._commit(self.tree, (self.tip,), text)

    def _tree(self) -> Oid:
        return self.pack.add("tree", encode_tree(self.root, self.format))

    def _commit(self, tree: Oid, parents: Sequence[Oid], message: str) -> Oid:
        commit = Commit(tree, tuple(parents), WHO, WHO, message)
        return self.pack.add("commit", encode_commit(commit))

    def lines(self) -> str:
        return (
            f"create refs/heads/wf/run/{self.run} {self.tip}\n"
            f"create refs/wf/meta/{self.run} {self.meta}\n"
        )

    def publish(self, place: Place) -> None:
        place.git("update-ref", "--create-reflog", "--stdin", stdin=self.lines().encode())


# Peers, where they are installed.


def peers(bench: Bench) -> Iterator[Figure]:
    """Others that save a workspace, on the same work; whole processes against one commit."""
    known = {
        "praisonai checkpoint save": ["praisonai", "checkpoint", "save", "x"],
        "datalad save": ["datalad", "save", "-m", "x"],
        "dvc exp save": ["dvc", "exp", "save", "--force"],
    }
    place = bench.place(10_000)
    for what, command in known.items():
        if which(command[0]) is None:
            continue
        found = compare(
            partial(one_commit, place),
            process(place, *command),
            bench.rounds(6),
            before_base=lambda: place.edit(place.top, 10),
            before_ours=lambda: place.edit(place.top, 10),
        )
        yield found.figure(what, float("inf"))
