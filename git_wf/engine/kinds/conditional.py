"""A conditional node routes: it has no outcome of its own.

It always succeeds, so that its plain edges hold; the key `outcome`, the preferred label and the
suggestions that its edges are chosen by are those of the node before.
"""

from __future__ import annotations

from git_wf.core.outcome import SUCCESS, Outcome
from git_wf.engine.state import Visit


def route(visit: Visit) -> Outcome:
    return Outcome(
        SUCCESS,
        preferred_label=visit.before.preferred_label,
        suggested_next_ids=visit.before.suggested_next_ids,
    )
