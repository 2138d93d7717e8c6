"""A fan-out: every outgoing edge starts a branch, which walks the whole path to the join.

Each branch has a worktree, refs, a context and counts of its own. It ends at the join or at the
exit, and fails where it comes back to a fan-out that it is in, or to the join of one further out.
At most `max_parallel` branches run at once. With `join_policy="first_success"` the first that
succeeds stops the others; those that were stopped do not count in the outcome.

A fan-out as a whole is not tried again: its nodes have retries of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from git_wf.core.outcome import (
    CONFIGURATION,
    DETERMINISTIC,
    PARTIAL_SUCCESS,
    SUCCESS,
    TRANSIENT,
    Outcome,
    failed,
)
from git_wf.core.sections import (
    FAN_IN,
    FIRST_SUCCESS,
    JOIN_POLICIES,
    SECTION_KEY,
    BranchStep,
    find_join,
    join_policy,
)
from git_wf.engine.branches import Branch, BranchEnd, branch_result, walk_branch
from git_wf.engine.people import Ask, People, Question, Silence, Waiting
from git_wf.engine.process import TICK, Stalled
from git_wf.engine.programs import write_trace
from git_wf.engine.state import Ends, Visit, added_usage

MAX_PARALLEL = 4
RESULTS_KEY = "parallel.results"


def fan_out(visit: Visit) -> Outcome:
    """Raises `Interrupted`, `Stalled` or `Waiting` where a branch did, when all have ended."""
    visit.is_settled = True
    join = find_join(visit.run.graph, visit.node.id)
    fault = _fault(visit, join)
    if fault is not None or join is None:
        return fault or failed("its branches never meet", CONFIGURATION)
    stop = threading.Event()
    branches = _branches(visit, join, stop)
    names = [branch.step.name for branch in branches]
    _tell_loss(visit, branches)
    _announce_start(visit, join, names)
    ends = _walk_all(visit, branches, stop)
    visit.branches = [end.state for end in ends if end.state is not None]
    visit.watch.check_cancelled()
    if any(end.has_stalled for end in ends):
        raise Stalled
    for end in ends:
        if end.question is not None:
            raise Waiting(end.question)
    outcome = _outcome(visit, branches, ends)
    visit.facts[SECTION_KEY] = {"fan_out": visit.node.id, "visit": visit.number, "join": join}
    told = {end.step.name: end.status or "stopped" for end in ends}
    visit.announce(
        "parallel_completed",
        node=visit.node.id,
        visit=visit.number,
        status=outcome.status,
        branches=told,
    )
    visit.fire("parallel_complete", status=outcome.status)
    return outcome


def _fault(visit: Visit, join: str | None) -> Outcome | None:
    """Why no branch can begin."""
    policy = join_policy(visit.node)
    if policy not in JOIN_POLICIES:
        told = f"join_policy '{policy}' is none of {', '.join(JOIN_POLICIES)}"
        return failed(told, CONFIGURATION)
    if visit.run.dry_run:
        return None
    if visit.means.recorder.branches is None:
        return failed("branches need worktrees of their own: not in place", CONFIGURATION)
    if not visit.is_recorded:
        told = "the checkpoint before could not be recorded: branches would begin without its work"
        return failed(told, TRANSIENT)
    if join is not None and visit.run.graph.nodes[join].kind != FAN_IN:
        told = f"'{join}' is no fan-in: the work of the branches of '{visit.node.id}' stays on"
        visit.announce("notice", code="no_fan_in", message=f"{told} their refs, unmerged")
    return None


def _branches(visit: Visit, join: str, stop: threading.Event) -> list[Branch]:
    graph, node = visit.run.graph, visit.node
    good = frozenset({join, *(one.id for one in graph.of_kind("exit"))})
    bad = {
        **visit.ends.bad,
        **{id_: f"'{id_}' is beyond the join of '{node.id}'" for id_ in visit.ends.good},
        node.id: f"the branch came back to its fan-out '{node.id}'",
    }
    people = _one_at_a_time(visit.people)
    return [
        Branch(
            visit,
            edge,
            BranchStep(node.id, visit.number, number, edge.target),
            Ends(good, bad),
            people,
            stop,
        )
        for number, edge in enumerate(graph.outgoing(node.id), start=1)
    ]


def _tell_loss(visit: Visit, branches: Sequence[Branch]) -> None:
    """A resumption in a clone that was not given the branches' refs."""
    recorded = visit.means.recorder.branches if visit.state.resumed else None
    if recorded is None or any(recorded.find_branch(branch.step) for branch in branches):
        return
    section = branches[0].step.section
    told = f"no branch of '{section}' is recorded here: all of them run from their start"
    visit.announce("notice", code="section_repeated", message=told)


def _one_at_a_time(people: People) -> People:
    """Two branches do not talk to one person at once."""
    if people.ask is None:
        return people
    turn, asked = threading.Lock(), people.ask

    def ask(question: Question, complaint: str) -> str | Silence:
        with turn:
            return asked(question, complaint)

    checked: Ask = ask
    return replace(people, ask=checked)


def _announce_start(visit: Visit, join: str, names: list[str]) -> None:
    visit.announce(
        "parallel_started",
        node=visit.node.id,
        visit=visit.number,
        branches=names,
        join=join,
        max_parallel=_max_parallel(visit),
    )
    visit.fire("parallel_start")


def _max_parallel(visit: Visit) -> int:
    if visit.run.dry_run:
        return 1  # nothing to wait for
    return max(1, visit.node.integer("max_parallel", MAX_PARALLEL))


def _walk_all(visit: Visit, branches: Sequence[Branch], stop: threading.Event) -> list[BranchEnd]:
    first_success = join_policy(visit.node) == FIRST_SUCCESS

    def walk(branch: Branch) -> BranchEnd:
        if stop.is_set() or visit.watch.cancel.is_set():
            return BranchEnd(branch.step, "")
        try:
            end = walk_branch(branch)
        except BaseException:
            stop.set()
            raise
        if end.has_stalled or (first_success and end.is_success):
            stop.set()
        return end

    with ThreadPoolExecutor(_max_parallel(visit), f"branch of {visit.node.id}") as pool:
        try:
            walks = [pool.submit(walk, branch) for branch in branches]
            # A signal that reaches another thread is not heard before this one wakes.
            while wait(walks, TICK).not_done:
                pass
            return [one.result() for one in walks]
        except BaseException:
            stop.set()
            raise


def _outcome(visit: Visit, branches: Sequence[Branch], ends: Sequence[BranchEnd]) -> Outcome:
    results = [branch_result(branch, end) for branch, end in zip(branches, ends, strict=True)]
    if not visit.run.dry_run:
        write_trace(visit, "parallel_results.json", results)
    usage: dict[str, Any] | None = None
    for end in ends:
        usage = added_usage(usage, end.state.usage if end.state else None)
    ran = [end for end in ends if end.status]
    good = [end for end in ran if end.is_success]
    fields: dict[str, Any] = {
        "context_updates": {RESULTS_KEY: results},
        "usage": usage,
        "notes": _notes(ends),
    }
    if not good:
        kinds = {end.kind for end in ran}
        kind = kinds.pop() if len(kinds) == 1 else DETERMINISTIC
        told = "; ".join(f"{end.step.own_name}: {end.reason}" for end in ran)
        return failed(f"no branch succeeded: {told}", kind, **fields)
    whole = len(good) == len(ran) and all(end.status == SUCCESS for end in good)
    return Outcome(SUCCESS if whole else PARTIAL_SUCCESS, **fields)


def _notes(ends: Sequence[BranchEnd]) -> str:
    lines = []
    for end in ends:
        reason = f": {end.reason}" if end.reason else ""
        lines.append(f"{end.step.own_name}: {end.status or 'stopped'}{reason}")
    return "\n".join(lines)
