"""`git wf run`: everything is read and checked first; then the run is made, walked and ended."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import dump_json
from git_wf.core.clock import Clock, milliseconds, rfc3339
from git_wf.core.context import Redaction
from git_wf.core.names import (
    RUN_ID_HINT,
    RunId,
    folded_components,
    is_run_id,
    operation_id,
)
from git_wf.core.run_config import EnvironmentEntry, RunConfig
from git_wf.core.sections import PARALLEL
from git_wf.core.settings import Settings, read_settings
from git_wf.core.templates import TemplateError, names, render
from git_wf.core.validate import unsupported
from git_wf.engine.backends import missing_backends
from git_wf.engine.handlers import HANDLED_KINDS
from git_wf.engine.loop import Conclusion, Run, walk
from git_wf.errors import Conflict, GitFailed, UserError, WorkflowInvalid
from git_wf.ops.change import take_run_lock, this_process
from git_wf.ops.dirty import Base, keep_checkout, refuse_dirty, start_base
from git_wf.ops.host import Host
from git_wf.ops.journal import DiskRecorder, Event, Journal
from git_wf.ops.people import Answering, make_people
from git_wf.ops.project import (
    Project,
    open_project,
    require_state_directory,
    require_writing_git,
    state_root,
)
from git_wf.ops.workflow import Workflow, load_workflow, read_project_tables
from git_wf.store.branches import Grounds, RunRecorder
from git_wf.store.excludes import Excludes
from git_wf.store.files import Lock, holder, make_directory, remove_tree, write_atomic
from git_wf.store.opened import Checkout, read_checkout
from git_wf.store.recorder import RunState, start_run
from git_wf.store.refs import read_ref
from git_wf.store.repo import Repo, scrubbed_env
from git_wf.store.rescue import Rescue, rescue_worktree
from git_wf.store.worktree import Slot, attach, give_back, keep, take_slot

Listener = Callable[[Event], None]


@dataclass(frozen=True)
class RunOptions:
    goal: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    dirty: str | None = None  # None: what `wf.dirty` says
    in_place: bool = False
    dry_run: bool = False
    keep_worktree: bool = False
    run_id: str | None = None
    answering: Answering = field(default_factory=Answering)


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


@dataclass(frozen=True)
class Prepared:
    """A workflow that may run: checked, its goal and environment filled in."""

    workflow: Workflow
    goal: str
    inputs: Mapping[str, Any]
    env: Mapping[str, str]  # of node processes
    secrets: tuple[str, ...]


def run(
    host: Host, path: Path, options: RunOptions, listen: Listener, cancel: threading.Event
) -> Ended:
    """Raises `UserError` or `WorkflowInvalid` before anything is made."""
    if options.in_place or options.dry_run:
        return _run_outside_git(host, path, options, listen, cancel)
    project = open_project(host)
    try:
        return _run_in_worktree(project, path, options, listen, cancel)
    finally:
        project.close()


def prepare(
    host: Host, path: Path, options: RunOptions, project_tables: Mapping[str, Any]
) -> Prepared:
    """Reads and checks a workflow. Raises `WorkflowInvalid` for every reason not to run it."""
    workflow = load_workflow(path, project_tables, options.inputs)
    refuse_errors(workflow)
    refuse_later_tables(workflow.config, str(path))
    inputs = {**workflow.config.run.inputs, **options.inputs}
    env, secrets = node_environment(workflow.config, host.env)
    goal = _goal(workflow, options, inputs, env)
    refuse_missing_backends(workflow, env)
    redaction = Redaction(secrets)  # the run, its record and its resumption have the same goal
    return Prepared(workflow, redaction.text(goal), redaction.value(inputs), env, secrets)


def refuse_errors(workflow: Workflow) -> None:
    errors = [*workflow.errors, *unsupported(workflow.graph, HANDLED_KINDS)]
    if errors:
        raise WorkflowInvalid(
            f"'{workflow.path}' cannot be run: {len(errors)} error{'s' if len(errors) > 1 else ''}",
            errors,
            hint=f"git wf validate {workflow.path}",
            file=str(workflow.path),
            text=workflow.text,
        )


def refuse_fan_outs(workflow: Workflow) -> None:
    """A run in place has one worktree, and branches need one each."""
    found = workflow.graph.of_kind(PARALLEL)
    if found:
        raise UserError(
            f"fan-out '{found[0].id}' cannot be run in place: its branches need worktrees",
            hint=f"git wf run {workflow.path}",
        )


def refuse_later_tables(config: RunConfig, origin: str) -> None:
    """What run.toml can say, and this version cannot do."""
    if config.run.push.remote:
        raise UserError(f"{origin}: 'run.push.remote' is not supported by this version of git-wf")


def refuse_missing_backends(workflow: Workflow, env: Mapping[str, str]) -> None:
    missing = missing_backends(workflow.graph, workflow.tables, env)
    if missing:
        raise UserError(missing[0].message, hint=missing[0].hint)


def node_environment(
    config: RunConfig, env: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of node processes, and the secret values in it.

    Where a secret is put together, so is each value that it is put together from.
    """
    values = scrubbed_env(env)
    secrets: list[str] = []
    for name, entry in config.run.env.items():
        template = entry.from_ if isinstance(entry, EnvironmentEntry) else entry
        try:
            value = render(template, {"env": env}, prompt=False)
        except TemplateError as err:
            raise UserError(f"run.toml: 'run.env.{name}': {err}") from err
        values[name] = value
        if isinstance(entry, EnvironmentEntry) and entry.secret:
            parts = [env.get(one.rest, "") for one in names(template) if one.first == "env"]
            secrets += [part for part in (value, *parts) if part]
    return values, tuple(dict.fromkeys(secrets))


def _goal(
    workflow: Workflow, options: RunOptions, inputs: Mapping[str, Any], env: Mapping[str, str]
) -> str:
    goal = options.goal
    if goal is None:
        goal = workflow.config.run.goal
    if goal is None:
        goal = workflow.graph.text("goal")
    values = {"inputs": inputs, "env": env, "graph": workflow.graph.attributes}
    try:
        return render(goal, values, prompt=False)
    except TemplateError as err:
        raise UserError(f"goal: {err}") from err


def new_run_id(host: Host, given: str | None, clock: Clock) -> RunId:
    run_id = RunId((host.new_id(clock.now()) if given is None else given).upper())
    if not is_run_id(run_id):
        raise UserError(f"'{given}' is not a run id", hint=RUN_ID_HINT)
    return run_id


# In a worktree of its own.


def _run_in_worktree(
    project: Project, path: Path, options: RunOptions, listen: Listener, cancel: threading.Event
) -> Ended:
    repo = project.repo
    checkout = _usable_checkout(repo)
    require_writing_git(repo)
    dirty = options.dirty or project.settings.dirty
    if dirty == "in-place" and not checkout.is_clean:
        return _run_outside_git(project.host, path, options, listen, cancel, (project, checkout))
    refuse_dirty(checkout, dirty)
    prepared = prepare(project.host, path, options, read_project_tables(repo.work_tree))
    people = make_people(options.answering, prepared.workflow.graph)
    excludes = make_excludes(prepared.workflow.config, project.settings)
    _refuse_names_in_the_way(project)
    run_id = new_run_id(project.host, options.run_id, project.clock)
    if project.store.run_refs(run_id) is not None:
        raise UserError(f"run {run_id} exists already", hint=f"git wf log {run_id}")
    require_state_directory(project.state_dir)
    lock = take_run_lock(project, run_id)
    try:
        with start_base(project, checkout, dirty, run_id, excludes) as base:
            live = _start(project, prepared, options, run_id, base, excludes, listen)
    except BaseException:
        remove_tree(project.run_dir(run_id))
        lock.release()
        raise
    try:
        for code, text in (*base.notices, *_start_notices(project)):
            live.notice(code, text)
        conclusion = walk(
            live.engine_run, None, live.recorder, live.journal, project.clock, cancel=cancel,
            secrets=prepared.secrets, first_delay=project.settings.retry_delay, people=people,
        )  # fmt: skip
        worktree = finish(project, live, conclusion, options.keep_worktree)
    finally:
        live.close()
        lock.release()
    return Ended(
        run_id=run_id,
        conclusion=conclusion,
        branch=project.settings.names.short_branch(run_id),
        base=base.commit,
        base_branch=base.branch if base.uncommitted_on is None else None,
        worktree=worktree,
        run_dir=project.run_dir(run_id),
    )


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
        self.recorder.close()
        self.journal.close()
        self.slot.lock.release()


def notice_event(clock: Clock, run_id: str, code: str, message: str) -> Event:
    time = rfc3339(clock.now())
    return {
        "event": "notice", "time": time, "run_id": run_id, "code": code, "message": message,
    }  # fmt: skip


def _usable_checkout(repo: Repo) -> Checkout:
    in_place = "git wf run --in-place WORKFLOW runs without a repository"
    if repo.work_tree is None:
        bare = repo.git_dir == repo.common_dir and repo.common_dir.name != ".git"
        raise UserError(
            "this is a bare repository: a run starts from a checkout"
            if bare
            else "not in a worktree: a run starts from a checkout",
            hint=["git worktree add ../checkout, then run it there", in_place],
        )
    checkout = read_checkout(repo)
    if checkout.head is None:
        raise UserError(
            "no commit yet: a run starts from a commit",
            hint=["git commit --allow-empty -m 'first commit'", in_place],
        )
    return checkout


def _refuse_names_in_the_way(project: Project) -> None:
    """A branch `wf` or `wf/run` makes every run branch impossible: said before anything is made."""
    names = project.settings.names
    parts = names.run_namespace.split("/")
    for count in range(1, len(parts) + 1):
        branch = "/".join(parts[:count])
        if read_ref(project.repo, f"refs/heads/{branch}") is not None and _is_exact(
            project.repo, f"refs/heads/{branch}"
        ):
            raise UserError(
                f"branch '{branch}' is in the way of '{names.run_namespace}/…'",
                hint=["git config wf.namespace NAME", f"git branch -m {branch} NEW-NAME"],
            )


def _is_exact(repo: Repo, ref: str) -> bool:
    return bool(repo.line("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128)))


def _start_notices(project: Project) -> list[tuple[str, str]]:
    notices = []
    if project.identity.is_fallback:
        notices.append(
            (
                "no_identity",
                "no git identity: commits are by git-wf <git-wf@localhost>"
                " (git config user.name, user.email)",
            )
        )
    return notices


def make_excludes(config: RunConfig, settings: Settings) -> Excludes:
    """run.toml's, the project file's and git config's add up."""
    table = config.checkpoint
    patterns = [*settings.exclude_globs, *table.exclude_globs]
    return Excludes(patterns, table.syntax, table.builtin_excludes)


def _start(
    project: Project,
    prepared: Prepared,
    options: RunOptions,
    run_id: RunId,
    base: Base,
    excludes: Excludes,
    listen: Listener,
) -> LiveRun:
    """Takes a worktree, makes both refs, and opens what the walk needs."""
    slot = take_slot(project.repo, project.state_dir, base.commit, run_id)
    try:
        record = run_record(project, prepared, options, run_id, base, slot.path)
        files = init_files(prepared, record, project)
        run_dir = make_directory(project.run_dir(run_id))
        write_atomic(run_dir / "run.json", files["run.json"])
        write_atomic(run_dir / "worktree", os.fsencode(slot.path) + b"\n")
        moment = project.clock.now()
        state = start_run(project.store, run_id, base.commit, files, project.identity, moment)
        attach(slot, project.settings.names.run_branch(run_id))
    except BaseException:
        give_back(slot, project.settings.worktree_pool)
        raise
    return open_live(project, prepared, state, slot, excludes, listen)


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
    )
    return LiveRun(project, recorder, slot, Journal(run_dir, listen), engine_run)


def engine_view(
    prepared: Prepared, run_id: str, started: Mapping[str, Any], dry: bool = False
) -> Run:
    """The run as the engine knows it."""
    return Run(
        run_id=run_id,
        graph=prepared.workflow.graph,
        goal=prepared.goal,
        inputs=prepared.inputs,
        config=prepared.workflow.tables,
        env=prepared.env,
        dry_run=dry,
        started=started,
    )


def run_record(
    project: Project,
    prepared: Prepared,
    options: RunOptions,
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
        "labels": Redaction(prepared.secrets).value(dict(options.labels)),
        "goal": prepared.goal,
        "inputs": dict(prepared.inputs),
        "config": dict(workflow.tables),
        "graph": workflow.graph.to_json(),
        "forked_from": None,
        "lineage": [],
    }


def init_files(prepared: Prepared, record: Mapping[str, Any], project: Project) -> dict[str, bytes]:
    """The tree of `init run`."""
    graph = prepared.workflow.graph
    start = {
        "format": 1,
        "run_id": record["run_id"],
        "start_time": record["created_at"],
        "run_branch": project.settings.names.short_branch(str(record["run_id"])),
        "base_sha": record["base_sha"],
    }
    manifest = {
        **start,
        "workflow_name": graph.name or prepared.workflow.slug,
        "goal": prepared.goal,
        "node_count": len(graph.nodes),
        "edge_count": len(graph.edges),
        "base_branch": record["base_branch"],
    }
    files = {
        "run.json": dump_json(record),
        "start.json": dump_json(start),
        "manifest.json": dump_json(manifest),
        "graph.dot": graph.dot.encode("utf-8", "surrogateescape"),
    }
    if prepared.workflow.run_toml is not None:
        files["run.toml"] = prepared.workflow.run_toml
    return files


def finish(
    project: Project, live: LiveRun, conclusion: Conclusion, keep_worktree: bool
) -> Path | None:
    """Records the conclusion and lets the worktree go; where it was kept, its path.

    An interrupted run keeps its worktree as it is: resume finds there what the node had done.
    """
    if conclusion.status == "interrupted":
        return None
    # After a checkpoint that was skipped the worktree may hold what none has.
    is_safe = not conclusion.skipped or _rescue(project, live)
    live.journal.end()
    if conclusion.status != "waiting":
        live.recorder.finalize(conclusion_record(conclusion), live.journal.path.read_bytes())
    if keep_worktree or not is_safe:
        keep(live.slot)
        return live.slot.path
    give_back(live.slot, project.settings.worktree_pool)
    (live.journal.path.parent / "worktree").unlink(missing_ok=True)
    _maintain(project)
    return None


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


# Without git.


def _run_outside_git(
    host: Host,
    path: Path,
    options: RunOptions,
    listen: Listener,
    cancel: threading.Event,
    dirty: tuple[Project, Checkout] | None = None,
) -> Ended:
    """An in-place run, state on disk only; or a dry run, which makes nothing at all.

    What is not committed in a `dirty` checkout is kept first.
    """
    repo = _repository_here(host)
    top = repo.work_tree if repo is not None and repo.work_tree is not None else host.cwd
    prepared = prepare(host, path, options, read_project_tables(top))
    people = make_people(options.answering, prepared.workflow.graph)
    if not options.dry_run:
        refuse_fan_outs(prepared.workflow)
    run_id = new_run_id(host, options.run_id, host.clock)
    engine_run = engine_view(prepared, run_id, {"worktree": str(top)}, dry=options.dry_run)
    state_dir = in_place_directory(host, repo, top)
    run_dir = state_dir / "runs" / run_id
    if options.dry_run:
        recorder = DiskRecorder(run_dir, top)  # a dry run records nothing
        conclusion = walk(engine_run, None, recorder, listen, host.clock, cancel=cancel)
        return Ended(run_id, conclusion)
    require_state_directory(state_dir)
    lock = take_directory_lock(run_dir, run_id)
    journal = Journal(run_dir, listen)
    try:
        write_in_place_record(run_dir, prepared, options, run_id, top, host.clock)
        for code, text in _kept_checkout(dirty, run_id):
            journal(notice_event(host.clock, run_id, code, text))
        conclusion = walk(
            engine_run, None, DiskRecorder(run_dir, top), journal, host.clock, cancel=cancel,
            secrets=prepared.secrets, first_delay=_retry_delay(host, repo), people=people,
        )  # fmt: skip
        write_atomic(run_dir / "conclusion.json", dump_json(conclusion_record(conclusion)))
    finally:
        journal.close()
        lock.release()
    return Ended(run_id, conclusion, run_dir=run_dir)


def _kept_checkout(dirty: tuple[Project, Checkout] | None, run_id: RunId) -> list[tuple[str, str]]:
    if dirty is None or dirty[1].head is None:
        return []
    return keep_checkout(dirty[0], dirty[1].head, run_id)


def _repository_here(host: Host) -> Repo | None:
    try:
        return Repo.find(host.cwd, host.env)
    except UserError:
        return None


def _retry_delay(host: Host, repo: Repo | None) -> float | None:
    return read_settings(repo.config_values()).retry_delay if repo else None


def in_place_directory(host: Host, repo: Repo | None, top: Path) -> Path:
    """The state directory of a repository, or of a folder outside one."""
    if repo is not None:
        settings = read_settings(repo.config_values())
        return state_root(settings, host.env) / repo.key
    real = os.path.realpath(top)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return state_root(read_settings({}), host.env) / f"{Path(real).name or 'root'}-{digest}"


def take_directory_lock(run_dir: Path, run_id: str) -> Lock:
    lock = Lock(make_directory(run_dir) / "lock", this_process())
    if not lock.acquire(0.3):
        raise UserError(f"run {run_id} is going on: {holder(run_dir / 'lock')} holds it")
    return lock


def write_in_place_record(
    run_dir: Path, prepared: Prepared, options: RunOptions, run_id: str, top: Path, clock: Clock
) -> None:
    """run.json and graph.dot of an in-place run: what `--resume` needs beside checkpoint.json."""
    record = {
        "format": 1,
        "run_id": run_id,
        "created_at": rfc3339(clock.now()),
        "workflow_slug": prepared.workflow.slug,
        "working_directory": str(top),
        "labels": dict(options.labels),
        "goal": prepared.goal,
        "inputs": dict(prepared.inputs),
        "config": dict(prepared.workflow.tables),
        "graph": prepared.workflow.graph.to_json(),
        "in_place": True,
    }
    write_atomic(run_dir / "run.json", dump_json(record))
    dot = prepared.workflow.graph.dot.encode("utf-8", "surrogateescape")
    write_atomic(run_dir / "graph.dot", dot)
