"""`git wf run`: everything is read and checked first; then the run is made, walked and ended."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import dump_json
from git_wf.core.children import MANAGER_LOOP
from git_wf.core.clock import Clock, rfc3339
from git_wf.core.context import Redaction
from git_wf.core.names import (
    RUN_ID_HINT,
    RunId,
    is_run_id,
)
from git_wf.core.sections import PARALLEL
from git_wf.core.settings import Settings, read_settings
from git_wf.core.templates import GOAL_HINT, TemplateError, render
from git_wf.engine.loop import Run, walk
from git_wf.errors import UserError
from git_wf.ops.autosave import save_before_run, wants_snapshot
from git_wf.ops.change import moment_of_new_run, take_run_lock
from git_wf.ops.children import RunChildren, in_turn
from git_wf.ops.dirty import keep_checkout, refuse_dirty, start_base
from git_wf.ops.host import Host
from git_wf.ops.journal import DiskRecorder, Journal
from git_wf.ops.live import (
    Ended,
    Listener,
    Prepared,
    conclusion_record,
    engine_view,
    finish,
    make_excludes,
    node_environment,
    notice_event,
    refuse_errors,
    refuse_missing_backends,
    settings_at,
    start_live,
    take_directory_lock,
)
from git_wf.ops.people import Answering, make_people
from git_wf.ops.project import (
    Project,
    open_project,
    require_state_directory,
    require_writing_git,
    state_root,
)
from git_wf.ops.resume import take_up
from git_wf.ops.sharing import require_remote, shared
from git_wf.ops.workflow import Workflow, load_workflow, read_project_tables
from git_wf.store.files import remove_tree, write_atomic
from git_wf.store.opened import Checkout, read_checkout
from git_wf.store.refs import read_ref
from git_wf.store.repo import Repo


@dataclass(frozen=True)
class RunOptions:
    goal: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    dirty: str | None = None  # None: what `wf.dirty` says
    in_place: bool = False
    dry_run: bool = False
    keep_worktree: bool = False
    no_snapshot: bool = False
    run_id: str | None = None
    answering: Answering = field(default_factory=Answering)


def run(
    host: Host, path: Path, options: RunOptions, listen: Listener, cancel: threading.Event
) -> Ended:
    """Raises `UserError` or `WorkflowInvalid` before anything is made."""
    listen = in_turn(listen)
    if options.in_place or options.dry_run:
        return _run_outside_git(host, path, options, listen, cancel)
    project = open_project(host)
    try:
        return _run_in_worktree(project, path, options, listen, cancel)
    finally:
        project.close()


def prepare(
    host: Host,
    path: Path,
    options: RunOptions,
    project_tables: Mapping[str, Any],
    settings: Settings,
) -> Prepared:
    """Reads and checks a workflow. Raises `WorkflowInvalid` for every reason not to run it."""
    workflow = load_workflow(path, project_tables, options.inputs)
    refuse_errors(workflow)
    inputs = {**workflow.config.run.inputs, **options.inputs}
    env, secrets = node_environment(workflow.config, host.env, settings)
    goal = _goal(workflow, options, inputs, env)
    refuse_missing_backends(workflow, env)
    redaction = Redaction(secrets)  # the run, its record and its resumption have the same goal
    return Prepared(workflow, redaction.text(goal), redaction.value(inputs), env, secrets)


def refuse_worktrees(workflow: Workflow) -> None:
    """A run in place has one worktree; branches and child workflows need one each. It has no
    checkpoints that could be pushed."""
    if workflow.config.run.push.remote:
        raise UserError(
            "'run.push.remote' cannot be used in place: there are no checkpoints",
            hint="leave it out, or run it in a worktree: without --in-place",
        )
    children = workflow.graph.of_kind(MANAGER_LOOP)
    if children:
        raise UserError(
            f"node '{children[0].id}' cannot be run in place: its child workflow needs a worktree",
            hint=f"git wf run {shlex.quote(str(workflow.path))}",
        )
    found = workflow.graph.of_kind(PARALLEL)
    if found:
        raise UserError(
            f"fan-out '{found[0].id}' cannot be run in place: its branches need worktrees",
            hint=f"git wf run {shlex.quote(str(workflow.path))}",
        )


def _goal(
    workflow: Workflow, options: RunOptions, inputs: Mapping[str, Any], env: Mapping[str, str]
) -> str:
    goal = options.goal
    if goal is None:
        goal = workflow.config.run.goal
    if goal is None:
        goal = workflow.graph.text("goal")
    if "\0" in goal:
        raise UserError("the goal has a NUL byte", hint="--goal-file names a text file")
    values = {"inputs": inputs, "env": env, "graph": workflow.graph.attributes}
    try:
        return render(goal, values, prompt=False)
    except TemplateError as err:
        raise UserError(f"goal: {err}", hint=GOAL_HINT) from err


def new_run_id(host: Host, given: str | None, now: Callable[[], datetime]) -> RunId:
    run_id = RunId((host.new_id(now()) if given is None else given).upper())
    if not is_run_id(run_id):
        raise UserError(f"'{given}' is not a run id", hint=RUN_ID_HINT)
    return run_id


# In a worktree of its own.


def _refuse_existing(project: Project, run_id: RunId) -> None:
    if project.store.run_refs(run_id) is not None:
        raise UserError(f"run {run_id} exists already", hint=f"git wf log {run_id}")


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
    tables = read_project_tables(repo.work_tree)
    prepared = prepare(project.host, path, options, tables, project.settings)
    people = make_people(options.answering, prepared.workflow)
    excludes = make_excludes(prepared.workflow.config, project.settings)
    _refuse_names_in_the_way(project)
    run_id = new_run_id(project.host, options.run_id, lambda: moment_of_new_run(project))
    _refuse_existing(project, run_id)
    wants = not options.no_snapshot and wants_snapshot(project.host.env, prepared.workflow.config)
    pushed_to = prepared.workflow.config.run.push.remote
    require_remote(project, run_id, pushed_to)
    require_state_directory(project.state_dir)
    saved = save_before_run(project.host, run_id, workflow=path, in_place=None) if wants else []
    lock = take_run_lock(project, run_id)
    try:
        _refuse_existing(project, run_id)  # whoever made it since has let go of the lock
    except BaseException:
        lock.release()
        raise
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        is_claimed = pushed_to is not None
        sharing = stack.enter_context(
            shared(project, run_id, pushed_to, cancel, is_claimed=is_claimed)
        )
        try:
            with start_base(project, checkout, dirty, run_id, excludes) as base:
                live = start_live(project, prepared, options.labels, run_id, base, excludes, listen)
        except BaseException:
            remove_tree(project.run_dir(run_id))
            raise
        try:
            for code, text in (*base.notices, *_start_notices(project), *saved):
                live.notice(code, text)
            conclusion = walk(
                live.engine_run, None, live.recorder, sharing.hear(live.journal, live.notice),
                project.clock, cancel=cancel,
                secrets=prepared.secrets, first_delay=project.settings.retry_delay, people=people,
                children=RunChildren(project, prepared, options.answering, listen, take_up),
            )  # fmt: skip
            worktree = finish(project, live, conclusion, options.keep_worktree)
        finally:
            live.close()
        unshared = sharing.end()
    return Ended(
        run_id=run_id,
        conclusion=conclusion,
        branch=project.settings.names.short_branch(run_id),
        base=base.commit,
        base_branch=base.branch if base.uncommitted_on is None else None,
        worktree=worktree,
        run_dir=project.run_dir(run_id),
        unshared=unshared,
    )


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
    settings = settings_at(host.cwd, host.env)
    prepared = prepare(host, path, options, read_project_tables(top), settings)
    people = make_people(options.answering, prepared.workflow)
    if not options.dry_run:
        refuse_worktrees(prepared.workflow)
    run_id = new_run_id(host, options.run_id, host.clock.now)
    wants = not options.no_snapshot and wants_snapshot(host.env, prepared.workflow.config)
    state_dir = in_place_directory(host, repo, top)
    started = {"worktree": str(top)}
    engine_run = engine_view(prepared, run_id, started, state_dir.name, dry=options.dry_run)
    run_dir = state_dir / "runs" / run_id
    if options.dry_run:
        recorder = DiskRecorder(run_dir, top)  # a dry run records nothing
        conclusion = walk(engine_run, None, recorder, listen, host.clock, cancel=cancel)
        return Ended(run_id, conclusion)
    require_state_directory(state_dir)
    lock = take_directory_lock(run_dir, run_id)
    journal = Journal(run_dir, listen)
    try:
        write_in_place_record(run_dir, prepared, options, engine_run, top, host.clock)
        saved = save_before_run(host, run_id, workflow=path, in_place=top) if wants else []
        for code, text in (*_kept_checkout(dirty, run_id), *saved):
            journal(notice_event(host.clock, run_id, code, text))
        conclusion = walk(
            engine_run, None, DiskRecorder(run_dir, top), journal, host.clock, cancel=cancel,
            secrets=prepared.secrets, first_delay=settings.retry_delay, people=people,
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


def in_place_directory(host: Host, repo: Repo | None, top: Path) -> Path:
    """The state directory of a repository, or of a folder outside one."""
    if repo is not None:
        settings = read_settings(repo.config_values())
        return state_root(settings, host.env) / repo.key
    real = os.path.realpath(top)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return state_root(read_settings({}), host.env) / f"{Path(real).name or 'root'}-{digest}"


def write_in_place_record(
    run_dir: Path, prepared: Prepared, options: RunOptions, run: Run, top: Path, clock: Clock
) -> None:
    """run.json and graph.dot of an in-place run: what `--resume` needs beside checkpoint.json."""
    record = {
        "format": 1,
        "run_id": run.run_id,
        "created_at": rfc3339(clock.now()),
        "workflow_slug": prepared.workflow.slug,
        "working_directory": str(top),
        "labels": dict(options.labels),
        "goal": prepared.goal,
        "inputs": dict(prepared.inputs),
        "config": dict(prepared.workflow.tables),
        "graph": prepared.workflow.graph.to_json(),
        "in_place": True,
        "repository": run.repository,
    }
    write_atomic(run_dir / "run.json", dump_json(record))
    dot = prepared.workflow.graph.dot.encode("utf-8", "surrogateescape")
    write_atomic(run_dir / "graph.dot", dot)
