"""Repositories with runs of Fabro and Arc, in each of the shapes that occur, made by plain git."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import git

RUN = "01KKPTSEVJR1P4CYAYQSNGXRKA"  # of the moment BEGIN
BEGIN = 1773514202  # seconds since 1970
CREDIT = "\n⚒️ Generated with [Fabro](https://example.org)\n"
GRAPH = """digraph Loop {
  graph [goal="try it"]
  start [shape=Mdiamond]
  exit [shape=Msquare]
  plan [shape=parallelogram, script="echo planned >plan.txt"]
  work [shape=parallelogram, script="echo worked >>work.txt"]
  start -> plan -> work -> exit
}
"""


def record(node: str, **fields: Any) -> dict[str, Any]:
    """A checkpoint as Fabro records it; `visits` of all nodes but the start, `status` of `node`."""
    visits: dict[str, int] = fields.pop("visits", {node: 1})
    status = fields.pop("status", "success")
    outcomes = {name: {"status": "success", "notes": f"did {name}"} for name in visits}
    outcomes[node] = {"status": status, "notes": f"did {node}", "duration_ms": 1500}
    second = sum(visits.values())
    return {
        "timestamp": f"2026-03-14T18:50:{second:02}.420942Z",
        "current_node": node,
        "completed_nodes": ["start", *visits],
        "node_retries": {},
        "context_values": {
            "internal.run_id": RUN, "outcome": status, "last_stage": node, "graph.goal": "try it",
        },
        "node_outcomes": {"start": {"status": "success"}, **outcomes},
        "next_node_id": "exit",
        "node_visits": {"start": 1, **visits},
        **fields,
    }  # fmt: skip


@dataclass
class Foreign:
    """A repository, and the chains of one run in it."""

    path: Path
    run: str = RUN
    dialect: str = "fabro"
    made: int = 0
    metadata: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, path: Path, **names: str) -> Foreign:
        """With one commit of somebody's on `main`, which is older than the run."""
        path.mkdir()
        found = cls(path, **names)
        git("init", "-q", ".", cwd=path)
        found._import("refs/heads/main", "first\n", {"README": "hello\n"}, None, BEGIN - 10 * 86400)
        return found

    @property
    def base(self) -> str:
        return git("rev-parse", "main", cwd=self.path)

    def record_metadata(
        self, title: str, files: Mapping[str, Any], *, ref: str | None = None, credit: bool = True
    ) -> str:
        """A metadata commit; its tree is just `files` (a text, or what becomes JSON)."""
        ref = ref or f"refs/heads/fabro/meta/{self.run}"
        texts = {
            name: one if isinstance(one, str) else json.dumps(one) for name, one in files.items()
        }
        message = f"{title}\n{CREDIT if credit else ''}"
        self.metadata.append(self._import(ref, message, texts, self._tip(ref)))
        return self.metadata[-1]

    def commit(
        self,
        node: str,
        status: str = "success",
        *,
        completed: int | None = 2,
        checkpoint: str = "",
        files: Mapping[str, str] | None = None,
    ) -> str:
        """A run commit."""
        lines = [f"{self.dialect}({self.run}): {node} ({status})", ""]
        word = self.dialect.capitalize()
        if completed is not None:
            lines += [f"{word}-Run: {self.run}", f"{word}-Completed: {completed}"]
        if checkpoint:
            lines.append(f"{word}-Checkpoint: {checkpoint}")
        return self.somebody("\n".join(lines) + "\n" + CREDIT, files or {})

    def somebody(self, message: str, files: Mapping[str, str]) -> str:
        """A commit on the run branch, by whomever."""
        ref = f"refs/heads/{self.dialect}/run/{self.run}"
        before = self._tip(ref) or self.base
        self.commits.append(self._import(ref, message, files, before, keeps=True))
        return self.commits[-1]

    def _tip(self, ref: str) -> str | None:
        return git("for-each-ref", "--format=%(objectname)", ref, cwd=self.path) or None

    def _import(
        self,
        ref: str,
        message: str,
        files: Mapping[str, str],
        parent: str | None,
        seconds: int | None = None,
        *,
        keeps: bool = False,
    ) -> str:
        self.made += 1
        moment = BEGIN + self.made if seconds is None else seconds
        text = message.encode()
        stream = f"commit {ref}\ncommitter Fabro <fabro@example.com> {moment} +0000\n".encode()
        stream += b"data %d\n%s\n" % (len(text), text)
        stream += f"from {parent}\n".encode() if parent else b""
        stream += b"" if keeps else b"deleteall\n"
        for name, content in files.items():
            data = content.encode()
            stream += f"M 100644 inline {name}\n".encode() + b"data %d\n%s\n" % (len(data), data)
        git("fast-import", "--quiet", "--force", cwd=self.path, stdin=stream)
        return str(self._tip(ref))


def plain_run(path: Path, **names: str) -> Foreign:
    """Two nodes, both sides whole, finalized: the first layout of Fabro's."""
    one = Foreign.begin(path, **names)
    files: dict[str, Any] = {
        "graph.fabro": GRAPH,
        "manifest.json": {
            "run_id": one.run, "workflow_name": "Loop", "goal": "try it", "base_sha": "0" * 40,
            "start_time": "2026-03-14T18:50:02.417260Z", "base_branch": "main",
        },
        "sandbox.json": {"provider": "local"},
    }  # fmt: skip
    one.record_metadata("initialize branch", {})
    one.record_metadata("init run", files)
    for node, visits, text in (
        ("plan", {"plan": 1}, "planned\n"), ("work", {"plan": 1, "work": 1}, "worked\n"),
    ):  # fmt: skip
        following = "work" if node == "plan" else "exit"
        files |= {
            "checkpoint.json": record(node, visits=visits, next_node_id=following),
            f"nodes/{node}/status.json": {"status": "success"},
            f"nodes/{node}/stdout.log": f"log of {node}\n",
        }
        named = one.record_metadata("checkpoint", files)
        one.commit(node, completed=len(visits) + 1, checkpoint=named, files={f"{node}.txt": text})
    one.record_metadata("finalize run", files)
    return one


def checkout(one: Foreign) -> Path:
    """The repository as somebody works in it: `main` checked out."""
    git("reset", "-q", "--hard", cwd=one.path)
    return one.path
