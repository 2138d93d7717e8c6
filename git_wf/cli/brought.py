"""What fetch and pull tell."""

from __future__ import annotations

from collections.abc import Iterable

from git_wf.cli.output import tell_kept, write, write_error, write_json
from git_wf.ops.fetch import AHEAD, FORWARD, NEW, REWOUND, SAME, Fetched

_TOLD = {
    NEW: "fetched run {run} from {remote}",
    FORWARD: "run {run} is now as {remote} has it",
    SAME: "run {run} is as {remote} has it",
    AHEAD: "run {run} is ahead of {remote}",
    REWOUND: "run {run} was rewound at {remote}, and stays here as it is",
}
_HINTS = {
    AHEAD: "git wf push {remote} {run}",
    REWOUND: "git wf pull {remote} {run} follows",
}


def tell_fetched(brought: Iterable[Fetched], as_json: bool) -> None:
    """Each run as it comes."""
    done = []
    for one in brought:
        done.append(one)
        if as_json:
            continue
        write(_TOLD[one.state].format(run=one.run_id, remote=one.remote))
        if one.state in _HINTS:
            write_error("hint: " + _HINTS[one.state].format(run=one.run_id, remote=one.remote))
        if one.change is not None:
            tell_kept(one.change.plan.kept, one.change.rescued, None)
    if as_json:
        write_json({"format": 1, "runs": [one.to_json() for one in done]})
    elif not done:
        write_error("the remote has no runs")
