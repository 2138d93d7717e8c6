"""A fan-in: the work of the branches becomes one tree, as `merge` says.

| `merge` | merged is |
|---|---|
| `all` (default) | every branch that succeeded, one after the other in the order of the edges |
| `best` | one: by status, then `score` in its context, then id; with a `prompt` a model picks |
| `none` | nothing: every head stays on its ref |

A conflict fails the node, lists the files, and leaves every head on its ref.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from git_wf.core.outcome import (
    CONFIGURATION,
    FAIL,
    PARTIAL_SUCCESS,
    SKIPPED,
    SUCCESS,
    Outcome,
    failed,
    succeeded,
)
from git_wf.core.sections import SECTION_KEY, BranchStep
from git_wf.core.values import read_number
from git_wf.engine.kinds.agent import ask_agent
from git_wf.engine.kinds.parallel import RESULTS_KEY
from git_wf.engine.state import Visit

ALL, BEST, NONE = "all", "best", "none"
MERGES = (ALL, BEST, NONE)
_RANKS = {SUCCESS: 0, PARTIAL_SUCCESS: 1, SKIPPED: 2, FAIL: 3}
_OUTPUT_LIMIT = 2000  # characters of a branch's output that a model is shown

Result = Mapping[str, Any]  # as `parallel.results` has it


def join_branches(visit: Visit) -> Outcome:
    how = visit.node.text("merge") or ALL
    if how not in MERGES:
        return failed(f"merge '{how}' is none of {', '.join(MERGES)}", CONFIGURATION)
    section, results = _section(visit)
    if section is None or not results:
        return succeeded(notes="there are no branches to join")
    picked = _best(results, visit.values)
    said = Outcome(SUCCESS)
    if how == BEST and visit.node.text("prompt").strip() and not visit.run.dry_run:
        said = _ask(visit, results)
        if not said.is_success:
            return said
        named = _named(said, results)
        if named is None:
            return replace(failed("the backend named none of the branches"), usage=said.usage)
        picked = named
    updates = {
        **said.context_updates,
        "parallel.fan_in.best_id": picked["id"],
        "parallel.fan_in.best_outcome": picked["status"],
        "parallel.fan_in.best_head_sha": picked["head"],
    }
    chosen = {ALL: results, BEST: [picked], NONE: []}[how]
    good = [one for one in chosen if one["status"] in (SUCCESS, PARTIAL_SUCCESS)]
    outcome = _merged(visit, section, good, how)
    return replace(outcome, context_updates=updates, usage=said.usage)


def _section(visit: Visit) -> tuple[Mapping[str, Any] | None, Sequence[Result]]:
    section, results = visit.values.get(SECTION_KEY), visit.values.get(RESULTS_KEY)
    if not isinstance(section, Mapping) or not isinstance(results, list):
        return None, []
    return section, results


def _best(results: Sequence[Result], values: Mapping[str, Any]) -> Result:
    def rank(numbered: tuple[int, Result]) -> tuple[int, float, str, int]:
        number, one = numbered
        score = read_score(one["context_updates"].get("score", values.get("score")))
        return _RANKS.get(one["status"], len(_RANKS)), -score, one["id"], number

    return min(enumerate(results), key=rank)[1]


def read_score(value: Any) -> float:
    """A score as a number; what is none counts as less than any."""
    if isinstance(value, str):
        value = read_number(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return float("-inf")
    return float(value)


# A model picks.


def _ask(visit: Visit, results: Sequence[Result]) -> Outcome:
    candidates = [
        {
            "id": _label(one),
            "status": one["status"],
            "head": one["head"],
            "output": str(one["output"])[-_OUTPUT_LIMIT:],
            "score": one["context_updates"].get("score"),
        }
        for one in _candidates(results)
    ]
    listed = json.dumps(candidates, ensure_ascii=False, indent=2)
    return ask_agent(
        visit,
        f"The branches:\n\n{listed}\n\n"
        'Answer with the id of the best one, as JSON: {"preferred_next_label": "ID"}',
    )


def _candidates(results: Sequence[Result]) -> list[Result]:
    return [one for one in results if one["status"] in (SUCCESS, PARTIAL_SUCCESS)]


def _label(result: Result) -> str:
    """`1-plan`: ids alone may be alike."""
    return str(result["branch"]).rpartition("/")[2]


def _named(said: Outcome, results: Sequence[Result]) -> Result | None:
    """The branch that an answer names: in its JSON, else as the last word that is one."""
    text = said.context_updates.get("last_response", "")
    words = [said.preferred_label, *said.suggested_next_ids]
    for word in (*words, *reversed(re.findall(r"[\w-]+", str(text)))):
        for one in _candidates(results):
            if word and word in (_label(one), one["id"]):
                return one
    return None


# The merge.


def _merged(visit: Visit, section: Mapping[str, Any], good: Sequence[Result], how: str) -> Outcome:
    if how == NONE:
        return succeeded(notes="nothing is merged: every head stays on its ref")
    if not good:
        return _final(visit, failed("no branch succeeded: there is nothing to merge"))
    labels = ", ".join(map(_label, good))
    if visit.run.dry_run:
        return succeeded(notes=f"merged: {labels}")
    branches = visit.means.recorder.branches
    assert branches is not None, visit.node.id
    fan_out, number = str(section["fan_out"]), int(section["visit"])
    heads = [
        (BranchStep(fan_out, number, _number(one), str(one["id"])), str(one["head"]))
        for one in good
    ]
    merged = branches.merge(f"{fan_out}@{number}", heads)
    for code, message in merged.notices:
        visit.announce("notice", code=code, message=message)
    if merged.missing:
        return _run_again(visit, fan_out, number)
    if merged.conflicts:
        files = ", ".join(merged.conflicts)
        told = f"merge of branch '{merged.branch}' conflicts in {files}"
        return _final(visit, failed(told))
    return succeeded(notes=f"merged: {labels}")


def _number(result: Result) -> int:
    return int(_label(result).partition("-")[0])


def _final(visit: Visit, outcome: Outcome) -> Outcome:
    visit.is_settled = True  # the heads are what they are
    return outcome


def _run_again(visit: Visit, fan_out: str, number: int) -> Outcome:
    """A clone that was not given the refs of the branches has to walk them again."""
    told = f"the heads of '{fan_out}@{number}' are not in this repository: its branches run again"
    visit.announce("notice", code="section_repeated", message=told)
    visit.jump = fan_out
    return Outcome(SKIPPED, notes=told)
