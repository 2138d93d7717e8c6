"""`git wf validate`: what is wrong in workflow files, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.graph import Diagnostic
from git_wf.core.run_config import to_tables
from git_wf.core.validate import unsupported
from git_wf.engine.backends import missing_backends
from git_wf.engine.handlers import HANDLED_KINDS
from git_wf.errors import UserError, WorkflowInvalid
from git_wf.ops.workflow import Workflow, load_workflow


@dataclass(frozen=True)
class Checked:
    """One file and what was found in it."""

    file: str
    text: str  # of the file that the diagnostics are about
    nodes: int
    edges: int
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_valid(self) -> bool:
        return not any(one.severity == "error" for one in self.diagnostics)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "valid": self.is_valid,
            "nodes": self.nodes,
            "edges": self.edges,
            "diagnostics": [one.to_json() for one in self.diagnostics],
        }


def validate(
    files: Sequence[Path], *, strict: bool, backends: bool, env: Mapping[str, str]
) -> list[Checked]:
    """Never raises for what is in a file: that is a diagnostic."""
    return [_check(path, strict=strict, backends=backends, env=env) for path in files]


def validity_json(checked: Sequence[Checked]) -> dict[str, Any]:
    return {"format": FORMAT, "files": [one.to_json() for one in checked]}


def _check(path: Path, *, strict: bool, backends: bool, env: Mapping[str, str]) -> Checked:
    try:
        workflow = load_workflow(path)
    except WorkflowInvalid as err:
        return Checked(str(path), _text(path), 0, 0, err.diagnostics)
    except UserError as err:
        message = err.message.removeprefix(f"{path}: ")
        told = Diagnostic("run_config", "error", message, fix=next(iter(err.hints), None))
        return Checked(str(path), "", 0, 0, (told,))
    found = list(workflow.diagnostics)
    found += [replace(one, severity="warning") for one in _unsupported(workflow)]
    if backends:
        found += _missing(workflow, env)
    if strict:
        found = [replace(one, severity="error") for one in found]
    graph = workflow.graph
    return Checked(str(path), workflow.text, graph.node_count, len(graph.edges), tuple(found))


def _unsupported(workflow: Workflow) -> list[Diagnostic]:
    return unsupported(workflow.graph, HANDLED_KINDS)


def _missing(workflow: Workflow, env: Mapping[str, str]) -> list[Diagnostic]:
    missing = missing_backends(workflow.graph, to_tables(workflow.config), env)
    return [
        Diagnostic("backend_missing", "error", one.message, node=one.node, fix=one.hint)
        for one in missing
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
