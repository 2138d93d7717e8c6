"""What every run needs while it goes on: its workflow, its worktree, its record, its end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import dump_json
from git_wf.core.children import Child, child_files
from git_wf.core.clock import Clock, milliseconds, rfc3339
from git_wf.core.context import Redaction
from git_wf.core.names import (
    RunId,
    folded_components,
    operation_id,
)
from git_wf.core.run_config import EnvironmentEntry, RunConfig
from git_wf.core.run_files import manifest_record, start_record
from git_wf.core.settings import Settings, read_settings
from git_wf.core.templates import TemplateError, names, render
from git_wf.core.validate import unsupported
from git_wf.engine.backends import missing_backends
from git_wf.engine.handlers import HANDLED_KINDS
from git_wf.engine.loop import Conclusion, Run
from git_wf.errors import Conflict, GitFailed, UserError, WorkflowInvalid
from git_wf.ops.change import LOCK_PATIENCE, held_elsewhere, this_process
from git_wf.ops.dirty import Base, some_of
from git_wf.ops.expire import expire_daily
from git_wf.ops.journal import Event, Journal
from git_wf.ops.project import (
    Project,
)
from git_wf.ops.slots import clear_abandoned
from git_wf.ops.workflow import Workflow
from git_wf.store.branches import Grounds, RunRecorder
from git_wf.store.excludes import Excludes
from git_wf.store.files import Lock, make_directory, write_atomic
from git_wf.store.recorder import RunState, start_run
from git_wf.store.repo import Repo, scrubbed_env
from git_wf.store.rescue import Rescue, rescue_worktree
from git_wf.store.worktree import (
    Slot,
    attach,
    give_back,
    keep,
    take_slot,
    work_in_submodules,
)

Listener = Callable[[Event], None]
SHORTEST_SECRET = 6  # characters, of those that are known by their names


@dataclass(frozen=True)
class Ended:
    """How a run, or a part of it, ended."""

    run_id: str
    conclusion: Conclusion
    branch: str | None = None  # short name; None where nothing was recorded in git
    base: str | None = None
    base_branch: str | None = None
    worktree: Path | None = None  # where it was kept
    run_dir: Path | None = None
    unshared: tuple[str, ...] = ()  # what did not come to the remote


@dataclass(frozen=True)
class Prepared:
    """A workflow that may run: checked, its goal and environment filled in."""

    workflow: Workflow
    goal: str
    inputs: Mapping[str, Any]
    env: Mapping[str, str]  # of node processes
    secrets: tuple[str, ...]


def refuse_errors(workflow: Workflow) -> None:
    graphs = [workflow.graph, *(child.graph for child in all_children(workflow.children))]
    later = [one for graph in graphs for one in unsupported(graph, HANDLED_KINDS)]
    errors = [*workflow.errors, *later]
    if errors:
        raise WorkflowInvalid(
            f"'{workflow.path}' cannot be run: {len(errors)} error{'s' if len(errors) > 1 else ''}",
            errors,
            hint=f"git wf validate {shlex.quote(str(workflow.path))}",
            file=str(workflow.path),
            text=workflow.text,
        )


def refuse_missing_backends(workflow: Workflow, env: Mapping[str, str]) -> None:
    for graph in (workflow.graph, *(child.graph for child in all_children(workflow.children))):
        missing = missing_backends(graph, workflow.tables, env)
        if missing:
            raise UserError(missing[0].message, hint=missing[0].hint)


def all_children(children: Mapping[str, Child]) -> Iterator[Child]:
    """The child workflows, and theirs."""
    for child in children.values():
        yield child
        yield from all_children(child.children)


def node_environment(
    config: RunConfig, env: Mapping[str, str], settings: Settings
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of node processes, and the secret values in it.

    Where a secret is put together, so is each value that it is put together from. A short value is
    none by its name alone (`wf.secretEnv`): it would be found where it is not meant.
    """
    values = scrubbed_env(env)
    secrets: list[str] = []
    for name, entry in config.run.env.items():
        template = entry.from_ if isinstance(entry, EnvironmentEntry) else entry
        try:
            value = render(template, {"env": env}, prompt=False)
        except TemplateError as err:
            raise UserError(
                f"run.toml: 'run.env.{name}': {err}",
                hint="export it before the run, or set a value",
            ) from err
        values[name] = value
        if isinstance(entry, EnvironmentEntry) and entry.secret:
            secrets += [part for part in (value, *_parts(template, env)) if part]
    for name, value in values.items():
        if len(value) >= SHORTEST_SECRET and settings.is_secret(name):
            secrets.append(value)
    return values, tuple(dict.fromkeys(secrets))


def declared_secrets(
    config: RunConfig, env: Mapping[str, str], settings: Settings
) -> tuple[str, ...]:
    """The secret values of a run, of those that this environment has."""
    secrets = []
    for entry in config.run.env.values():
        if isinstance(entry, EnvironmentEntry) and entry.secret:
            secrets += _parts(entry.from_, env)
            with suppress(TemplateError):  # what it is made from is not here, so it cannot leave
                secrets.append(render(entry.from_, {"env": env}, prompt=False))
    for name, value in env.items():
        if len(value) >= SHORTEST_SECRET and settings.is_secret(name):
            secrets.append(value)
    return tuple(dict.fromkeys(secret for secret in secrets if secret))


def _parts(template: str, env: Mapping[str, str]) -> list[str]:
    return [env.get(one.rest, "") for one in names(template) if one.first == "env"]


def settings_at(where: Path, env: Mapping[str, str]) -> Settings:
    """Git's configuration of a place that need not be in a repository."""
    try:
        repo = Repo.find(where, env)
    except UserError:
        return read_settings({})
    return read_settings(repo.config_values())


@dataclass
class LiveRun:
    """What is open while a run goes on."""

    project: Project
    recorder: RunRecorder
    slot: Slot
    journal: Journal
    engine_run: Run

    def notice(self, code: str, message: str) -> None:
        self.journal(notice_event(self.project.clock, self.engine_run.run_id, code, message))

    def close(self) -> None:
        try:
            self.recorder.close()
        finally:
            self.journal.close()
            self.slot.lock.release()


def notice_event(clock: Clock, run_id: str, code: str, message: str) -> Event:
    time = rfc3339(clock.now())
    return {
        "event": "notice", "time": time, "run_id": run_id, "code": code, "message": message,
    }  # fmt: skip


def make_excludes(config: RunConfig, settings: Settings) -> Excludes:
    """run.toml's, the project file's and git config's add up."""
    table = config.checkpoint
    patterns = [*settings.exclude_globs, *table.exclude_globs]
    return Excludes(patterns, table.syntax, table.builtin_excludes)


def start_live(
    project: Project,
    prepared: Prepared,
    labels: Mapping[str, str],
    run_id: RunId,
    base: Base,
    excludes: Excludes,
    listen: Listener,
    parent: Mapping[str, Any] | None = None,
    *,
    at_step: Callable[[str], None] = lambda step: None,
) -> LiveRun:
    """Takes a worktree, makes both refs, and opens what the walk needs.

    `at_step` hears of each step that is done: slot, refs, attach.
    """
    slot = take_slot(project.repo, project.state_dir, base.commit, run_id)
    at_step("slot")
    try:
        record = run_record(project, prepared, labels, run_id, base, slot.path)
        if parent is not None:
            record["parent"] = dict(parent)
        files = init_files(prepared, record, project)
        run_dir = make_directory(project.run_dir(run_id))
        write_atomic(run_dir / "run.json", files["run.json"])
        write_atomic(run_dir / "worktree", os.fsencode(slot.path) + b"\n")
        moment = project.clock.now()
        state = start_run(project.store, run_id, base.commit, files, project.identity, moment)
        at_step("refs")
        attach(slot, project.settings.names.run_branch(run_id))
        at_step("attach")
    except BaseException:
        give_back(slot, project.settings.worktree_pool)
        raise
    return open_live(project, prepared, state, slot, excludes, listen)


def run_record(
    project: Project,
    prepared: Prepared,
    labels: Mapping[str, str],
    run_id: str,
    base: Base,
    worktree: Path,
) -> dict[str, Any]:
    """run.json."""
    workflow = prepared.workflow
    included = {"uncommitted_on": base.uncommitted_on} if base.uncommitted_on else {}
    return {
        "format": 1,
        "run_id": run_id,
        "created_at": rfc3339(project.clock.now()),
        "workflow_slug": workflow.slug,
        "working_directory": str(worktree),
        "host_repo_path": str(project.repo.work_tree),
        "base_branch": base.branch,
        "base_sha": base.commit,
        "base_tree": project.store.reader.read_commit(base.commit).tree,
        **included,
        "labels": Redaction(prepared.secrets).value(dict(labels)),
        "goal": prepared.goal,
        "inputs": dict(prepared.inputs),
        "config": dict(workflow.tables),
        "graph": workflow.graph.to_json(),
        "forked_from": None,
        "lineage": [],
    }


def open_live(
    project: Project,
    prepared: Prepared,
    state: RunState,
    slot: Slot,
    excludes: Excludes,
    listen: Listener,
) -> LiveRun:
    run_dir = project.run_dir(state.run_id)
    folded = folded_components(prepared.workflow.graph.nodes)
    grounds = Grounds(project.state_dir, project.settings.worktree_pool, folded)
    recorder = RunRecorder(
        project.store, state, slot, run_dir, excludes, project.identity, project.clock, grounds,
        durable=project.settings.durable,
    )  # fmt: skip
    branch = project.settings.names.short_branch(state.run_id)
    engine_run = engine_view(
        prepared,
        state.run_id,
        {"base": state.run_tip, "branch": branch, "worktree": str(slot.path)},
        project.repo.key,
    )
    return LiveRun(project, recorder, slot, Journal(run_dir, listen), engine_run)


def engine_view(
    prepared: Prepared,
    run_id: str,
    started: Mapping[str, Any],
    repository: str,
    dry: bool = False,
) -> Run:
    """The run as the engine knows it. `repository` is the key of its state directory."""
    return Run(
        run_id=run_id,
        graph=prepared.workflow.graph,
        goal=prepared.goal,
        inputs=prepared.inputs,
        config=prepared.workflow.tables,
        env=prepared.env,
        children=prepared.workflow.children,
        dry_run=dry,
        started=started,
        repository=repository,
    )


def init_files(prepared: Prepared, record: Mapping[str, Any], project: Project) -> dict[str, bytes]:
    """The tree of `init run`."""
    graph = prepared.workflow.graph
    branch = project.settings.names.short_branch(str(record["run_id"]))
    files = {
        "run.json": dump_json(record),
        "start.json": dump_json(start_record(record, branch)),
        "manifest.json": dump_json(manifest_record(record, branch, graph)),
        "graph.dot": graph.dot.encode("utf-8", "surrogateescape"),
        **child_files(prepared.workflow.children),
    }
    if prepared.workflow.run_toml is not None:
        files["run.toml"] = prepared.workflow.run_toml
    return files


def finish(
    project: Project,
    live: LiveRun,
    conclusion: Conclusion,
    keep_worktree: bool,
    *,
    is_cut: bool = False,
    at_step: Callable[[str], None] = lambda step: None,
) -> Path | None:
    """Records the conclusion and lets the worktree go; where it was kept, its path.

    An interrupted run keeps its worktree as it is: resume finds there what the node had done.
    `is_cut`: the run was ended in the middle of a visit. `at_step` hears of each step that is
    done: tidy, conclusion, release, directory.
    """
    if conclusion.status == "interrupted":
        return None
    # After a checkpoint that was skipped the worktree may hold what none has.
    is_safe = not (conclusion.skipped or is_cut) or _rescue(project, live)
    stays = keep_worktree or not is_safe or _holds_submodules(live)
    for told in clear_abandoned(project, live.engine_run.run_id):
        live.notice("rescued", told)
    at_step("tidy")
    live.journal.end()
    if conclusion.status != "waiting":
        _finalize(live, conclusion)
    at_step("conclusion")
    if stays:
        keep(live.slot)
        return live.slot.path
    give_back(live.slot, project.settings.worktree_pool)
    at_step("release")
    (live.journal.path.parent / "worktree").unlink(missing_ok=True)
    at_step("directory")
    expire_daily(project)
    _maintain(project)
    return None


def _finalize(live: LiveRun, conclusion: Conclusion) -> None:
    run = live.engine_run.run_id
    try:
        live.recorder.finalize(conclusion_record(conclusion), live.journal.read())
    except (GitFailed, OSError) as err:
        raise UserError(
            f"run {run} is over ({conclusion.status}), but its end cannot be recorded: {err}",
            hint=f"git wf resume {run} records it once that is mended",
        ) from err


def _holds_submodules(live: LiveRun) -> bool:
    """Whether work in submodules would be lost with the worktree; then it is told."""
    paths = work_in_submodules(live.slot)
    if paths:
        told = f"work in submodules is in no remote of theirs: {some_of(paths)}"
        live.notice("submodule_work", f"{told}; the worktree stays")
    return bool(paths)


def _rescue(project: Project, live: LiveRun) -> bool:
    """Keeps what is in the worktree; whether nothing in it can be lost now."""
    if not live.slot.path.is_dir():
        return True
    names, run, moment = project.settings.names, live.engine_run.run_id, project.clock.now()
    tip = live.recorder.state.run_tip
    ref = names.rescue_ref(run, operation_id(milliseconds(moment), "rescue", run, tip))
    rescue = Rescue(ref, tip, run)
    try:
        made = rescue_worktree(live.slot.repo, names, rescue, project.identity, moment)
    except (GitFailed, Conflict, OSError) as err:
        live.notice("not_rescued", f"unrecorded changes are left in the worktree: {err}")
        return False
    if made:
        live.notice("rescued", f"unrecorded changes in the worktree are kept at {ref}")
    return True


def conclusion_record(conclusion: Conclusion) -> dict[str, Any]:
    return {
        "status": conclusion.status,
        "failure_reason": conclusion.failure_reason or None,
        "duration_ms": conclusion.duration_ms,
        "total_retries": conclusion.total_retries,
        "usage": conclusion.usage,
        "skipped_checkpoints": conclusion.skipped,
    }


def _maintain(project: Project) -> None:
    """`git maintenance run --auto` in the foreground, where the user's configuration allows it."""
    config = project.repo.config_values()
    wanted = config.get("maintenance.auto", ["true"])[-1].lower()
    if wanted in ("false", "no", "off", "0") or config.get("gc.auto", [""])[-1] == "0":
        return
    project.repo.run(
        "-c", "maintenance.auto=true", "-c", "gc.auto=" + config.get("gc.auto", ["6700"])[-1],
        "-c", "gc.autoDetach=false", "-c", "maintenance.autoDetach=false",
        "maintenance", "run", "--auto", "--quiet", ok=range(256),
    )  # fmt: skip


def take_directory_lock(run_dir: Path, run_id: str) -> Lock:
    lock = Lock(make_directory(run_dir) / "lock", this_process())
    if not lock.acquire(LOCK_PATIENCE):
        raise held_elsewhere(run_id, lock.path)
    return lock
