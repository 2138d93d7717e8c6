"""Reading what `git wf run` and `git wf validate` are given: a workflow file or a run.toml."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli

from git_wf.core.children import Child
from git_wf.core.dot import parse, resolve_files
from git_wf.core.graph import KINDS, Diagnostic, Graph
from git_wf.core.run_config import (
    RunConfig,
    merge_tables,
    read_run_config,
    to_tables,
    with_checkpoint_table,
)
from git_wf.core.stylesheet import StylesheetError, styled
from git_wf.core.validate import check
from git_wf.engine.hooks import read_hooks
from git_wf.engine.plugins import installed_kinds
from git_wf.errors import UserError, WorkflowInvalid
from git_wf.ops.child_files import ChildReader, file_reader

TOML_HINT = 'a line is key = "text", key = 1 or key = ["a", "b"], or begins a [table]'
PROJECT_FILE = Path(".wf", "project.toml")


@dataclass(frozen=True)
class Workflow:
    """A workflow that parsed, with what validation says of it."""

    path: Path  # of the graph file, as it was named
    text: str  # of the graph file, for excerpts
    graph: Graph  # file references resolved, stylesheet applied
    config: RunConfig  # run.toml over the project file over defaults
    tables: Mapping[str, Any]  # the same as plain tables, for the run record
    run_toml: bytes | None  # as it was read
    diagnostics: tuple[Diagnostic, ...] = field(default=())
    children: Mapping[str, Child] = field(default_factory=dict)  # by the node that runs them

    @property
    def slug(self) -> str:
        """The file's name; its directory's where the file is just called `workflow`."""
        if self.path.stem != "workflow":
            return self.path.stem
        return self.path.absolute().parent.name or self.path.stem

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(one for one in self.diagnostics if one.severity == "error")


def load_workflow(
    path: Path,
    project_tables: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Workflow:
    """Reads, parses and checks. `inputs` are those of the command line; None: not known yet.

    Raises `UserError` for a file that cannot be read or a bad run config, `WorkflowInvalid` for a
    graph that does not parse; what is merely wrong in a graph is in `diagnostics`.
    """
    run_toml = None
    tables = with_checkpoint_table(project_tables or {})
    graph_path = path
    if path.suffix == ".toml":
        run_toml = read_file(path)
        own = read_toml(run_toml, str(path))
        _read_config(own, str(path))
        tables = merge_tables(tables, with_checkpoint_table(own))
        graph_path = _graph_path(path, tables)
    origin = str(path) if run_toml else str(PROJECT_FILE)
    config = _read_config(tables, origin)
    text = _decoded(read_file(graph_path), graph_path)
    graph = _parsed(text, graph_path)
    diagnostics: list[Diagnostic] = []
    graph, unresolved = resolve_files(graph, file_reader(graph_path.parent))
    diagnostics += unresolved
    judged = run_toml is not None or inputs is not None
    names = {**config.run.inputs, **(inputs or {})} if judged else None
    diagnostics += check(graph, names, _other_kinds(graph))
    children, found = ChildReader(graph_path, names).read(graph)
    diagnostics += found
    try:
        graph = styled(graph)
    except StylesheetError:
        assert any(one.rule == "stylesheet_syntax" for one in diagnostics)
    ordered = sorted(diagnostics, key=lambda one: (one.line or 0, one.column or 0))
    tables, told = to_tables(config), tuple(ordered)
    return Workflow(graph_path, text, graph, config, tables, run_toml, told, children)


def _read_config(tables: Mapping[str, Any], origin: str) -> RunConfig:
    """What is wrong in a file is told of that file, before it is laid over another."""
    config = read_run_config(tables, origin)
    try:
        read_hooks(to_tables(config))
    except UserError as err:
        raise UserError(f"{origin}: {err.message}", hint=err.hints) from err
    return config


def _other_kinds(graph: Graph) -> Collection[str]:
    """The kinds that installed packages add, where there is a node that is of none of ours."""
    return () if all(node.kind in KINDS for node in graph.nodes.values()) else installed_kinds()


def read_project_tables(top: Path | None) -> dict[str, Any]:
    """`.wf/project.toml` of the worktree at `top`; empty where there is none."""
    if top is None or not (top / PROJECT_FILE).is_file():
        return {}
    tables = read_toml(read_file(top / PROJECT_FILE), str(PROJECT_FILE))
    _read_config(tables, str(PROJECT_FILE))
    return tables


def read_toml(data: bytes, origin: str) -> dict[str, Any]:
    """Raises `UserError` with line and column where `data` is no TOML."""
    try:
        return tomli.loads(data.decode("utf-8"))
    except UnicodeDecodeError as err:
        told = f"{origin}: not UTF-8 at byte {err.start}"
        raise UserError(told, hint="save it as UTF-8") from err
    except tomli.TOMLDecodeError as err:
        raise UserError(f"{origin}: {_told(err)}", hint=TOML_HINT) from err


def _told(err: tomli.TOMLDecodeError) -> str:
    text = str(err)
    return text[:1].lower() + text[1:]


def _graph_path(run_toml: Path, tables: Mapping[str, Any]) -> Path:
    named = (tables.get("workflow") or {}).get("graph")
    if not named:
        raise UserError(
            f"{run_toml}: no workflow is named", hint='[workflow] graph = "workflow.dot"'
        )
    return run_toml.parent / str(named)


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as err:
        raise UserError(f"no file '{path}'", hint=_near_files(path)) from err
    except IsADirectoryError as err:
        raise UserError(
            f"'{path}' is a directory", hint="name the workflow file or the run.toml in it"
        ) from err
    except OSError as err:
        raise UserError(f"cannot read '{path}': {err.strerror}", hint=f"ls -l {path}") from err


def _near_files(path: Path) -> str:
    """What may have been meant by the path of a file that is not there."""
    place = path.parent
    try:
        names = [one.name for one in place.iterdir() if one.is_file()]
    except OSError:
        return f"there is no directory '{place}'"
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f"did you mean '{place / near[0]}'?" if near else f"ls {place} lists what is there"


def _parsed(text: str, path: Path) -> Graph:
    try:
        return parse(text, str(path))
    except WorkflowInvalid as err:
        err.file, err.text = str(path), text
        raise


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        before = data[: err.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        found = Diagnostic("syntax", "error", "not UTF-8", line, column)
        text = data.decode("utf-8", "replace")
        raise WorkflowInvalid(
            f"'{path}' does not parse", [found], file=str(path), text=text
        ) from err
