"""`git wf fork`: a new run that begins where another one was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from git_wf.core.checkpoint import FORMAT, dump_json
from git_wf.core.clock import rfc3339
from git_wf.core.graph import Graph
from git_wf.core.names import RUN_ID_HINT, RunId, is_run_id
from git_wf.core.run_files import manifest_record, start_record
from git_wf.core.timeline import Entry
from git_wf.core.trailers import metadata_message
from git_wf.errors import UserError
from git_wf.ops.adopt import Adopted, adopt, target_state, workflow_of
from git_wf.ops.change import Change, carry_out, moment_of_new_run, operation_of, script_of
from git_wf.ops.host import Host
from git_wf.ops.project import Project, open_project
from git_wf.ops.rewind import require_recorded
from git_wf.ops.select import Selected, matching_runs, select
from git_wf.store.objects import Commit
from git_wf.store.objects import Entry as TreeEntry
from git_wf.store.plans import RefPlan, new_blob, new_commit, new_tree
from git_wf.store.refs import RefUpdate
from git_wf.store.runs import StoredRun


@dataclass(frozen=True)
class Forked:
    change: Change
    run_id: str  # of the source
    new_run_id: str
    entry: Entry
    branch: str  # short name
    script: str | None  # of a dry run
    notices: tuple[str, ...] = ()


def fork(
    project: Project, words: Sequence[str], *, new_run_id: str | None, dry_run: bool
) -> Forked:
    """`[RUN] [TARGET]`; without a target from the newest checkpoint. The source stays as it is."""
    selected = select(project, words)
    moment = project.clock.now()
    entry = selected.entry(project, default="0")
    run_id = _new_id(project, new_run_id)
    state = _state(project, selected, entry)
    plan = plan_fork(project, selected, entry, state, run_id, moment)
    change = carry_out(project, plan, moment, dry_run=dry_run)
    return Forked(
        change=change,
        run_id=selected.run.run_id,
        new_run_id=run_id,
        entry=entry,
        branch=project.settings.names.short_branch(run_id),
        script=script_of(project, plan, moment) if dry_run else None,
        notices=state.notices,
    )


def fork_of_theirs(host: Host, word: str) -> Forked | None:
    """A fork of the run of Fabro's or Arc's that a word names; None where it names none of them."""
    project = open_project(host)
    try:
        known = project.store.every()
        named = [run for run in matching_runs(project, word, known) if run in known.others]
        if len(named) != 1 or project.store.load(known[named[0]]).foreign is None:
            return None
        return fork(project, named, new_run_id=None, dry_run=False)
    finally:
        project.close()


def _state(project: Project, selected: Selected, entry: Entry) -> Adopted:
    """The metadata tree of the target: as it is, or as it is taken over from another system."""
    run = selected.run
    if run.foreign is not None:
        workflow_of(project, run)  # without one nothing else matters
    try:
        require_recorded(entry, "forked from")
    except UserError as err:
        states = (selected.timeline.start, *selected.timeline.entries)
        whole = [one.ordinal for one in states if one.is_whole]
        err.hints = (f"git wf log {run.run_id} tells what there is",)
        if whole:
            err.hints = (f"git wf fork {run.run_id} @{whole[-1]} starts from the newest that has",)
        raise
    if run.foreign is not None:
        return adopt(project, selected, entry)
    return target_state(project, selected, entry)


def _new_id(project: Project, given: str | None) -> RunId:
    if given is None:
        return RunId(project.host.new_id(moment_of_new_run(project)))
    run = RunId(given.upper())
    if not is_run_id(run):
        raise UserError(f"'{given}' is not a run id", hint=RUN_ID_HINT)
    if project.store.run_refs(run) is not None:
        raise UserError(f"run {run} exists already", hint=f"git wf log {run}")
    return run


def plan_fork(
    project: Project,
    selected: Selected,
    entry: Entry,
    state: Adopted,
    new_run: RunId,
    moment: datetime,
) -> RefPlan:
    run = selected.run
    names, form = project.settings.names, project.repo.object_format
    target = require_recorded(entry)
    assert entry.metadata_commit is not None, entry
    made = _record(run, entry, new_run, moment)
    if state.graph is not None:
        made |= _adopted_record(project, run, state.graph)
    files = {"run.json": made}
    if state.graph is not None:
        branch = names.short_branch(new_run)
        files["start.json"] = start_record(made, branch)
        files["manifest.json"] = manifest_record(made, branch, state.graph)
    records = {
        name: new_blob(f"{name} of the new run", dump_json(one), form)
        for name, one in files.items()
    }
    added = {name.encode(): TreeEntry("100644", one.oid) for name, one in records.items()}
    entries = {**state.tree, **added}
    tree = new_tree("its state: the target's, with that run.json", entries, form)
    commit = Commit(
        tree=tree.oid,
        parents=(entry.metadata_commit,),
        author=project.identity.author_line(moment),
        committer=project.identity.committer_line(moment),
        message=metadata_message(
            names,
            new_run,
            f"fork from {run.run_id} @{entry.ordinal}",
            Op=operation_of(
                selected.last_operation, moment, "fork", run, f"{entry.name} {new_run}"
            ),
            Forked_From=run.run_id,
            Target=entry.name,
        ),
    )
    metadata = new_commit("its metadata commit", commit, form)
    return RefPlan(
        operation="fork",
        run_id=run.run_id,
        new_run_id=new_run,
        reason=f"{names.namespace}: fork {run.run_id} {entry.name}",
        updates=(  # the one that a run can be found and resumed by comes first
            RefUpdate(names.meta_ref(new_run), metadata.oid, None),
            RefUpdate(names.run_branch(new_run), target, None),
        ),
        objects=(*state.objects, *records.values(), tree, metadata),
        target=entry.name,
    )


def _record(run: StoredRun, entry: Entry, new_run: RunId, moment: datetime) -> dict[str, Any]:
    origin: dict[str, Any] = {
        "run": run.run_id,
        "commit": entry.commit,
        "metadata_commit": entry.metadata_commit,
        "ordinal": entry.ordinal,
    }
    if run.foreign is not None:
        origin["dialect"] = run.dialect
    return {
        **{key: value for key, value in run.record.items() if key != "parent"},
        "run_id": new_run,
        "created_at": rfc3339(moment),
        "working_directory": None,  # there is none before it is resumed
        "forked_from": origin,
        "lineage": [*(run.record.get("lineage") or []), origin],
    }


def _adopted_record(project: Project, run: StoredRun, graph: Graph) -> dict[str, Any]:
    """What a record of ours has that theirs has not."""
    base = project.store.reader.read_commit(run.base)
    return {"format": FORMAT, "base_tree": base.tree, "graph": graph.to_json()}
