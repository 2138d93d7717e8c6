"""What a run tells while it goes: one flat JSON object an event (formats.md, section 4).

Every event has `event`, `time` (RFC 3339) and `run_id`, and the fields of its kind:

| event | fields |
|---|---|
| `run_started` | `workflow`, and what the caller adds: `base, branch, worktree` |
| `stage_started` | `node, visit, kind` |
| `agent_output` | `node, text` |
| `stage_retrying` | `node, visit, attempt, delay_s, reason`: `attempt` is the one that comes |
| `stage_completed`, `stage_failed` | `node, visit, status, duration_ms, usage`; failed: `reason` |
| `edge_selected` | `from, to, label, why` |
| `checkpoint_saved` | `ordinal, commit, metadata_commit` |
| `checkpoint_skipped` | `reason` |
| `parallel_started` | `node, visit, branches, join, max_parallel` |
| `parallel_completed` | `node, visit, status, branches`: name → status |
| `branch_conflict` | `branches` (two names), `files`: what could not be merged as it is now |
| `waiting` | `node, choices` |
| `notice` | `code, message` |
| `run_finished` | `status, failure_reason` |

An event of a parallel branch has `parallel_branch` as well: `f@1/1-a`. Those of a child workflow
have its own `run_id`, and reach the listener of the run around it with a `parent_run` beside that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from git_wf.core.clock import Clock, rfc3339
from git_wf.core.context import Redaction

Event = dict[str, Any]
Listener = Callable[[Event], None]


class Announcer:
    """Tells the listener what happened, with time and run, without the run's secrets."""

    def __init__(
        self,
        run_id: str,
        listen: Listener,
        clock: Clock,
        redaction: Redaction,
        touch: Callable[[], None],
        branch: str = "",
    ) -> None:
        self._run_id = run_id
        self._listen = listen
        self._clock = clock
        self._redaction = redaction
        self._touch = touch  # every event is a sign of life
        self._mark = {"parallel_branch": branch} if branch else {}
        self._turn = threading.Lock()

    def for_branch(self, branch: str) -> Announcer:
        """The announcer of a parallel branch: one event at a time, whichever branch it is of."""
        made = Announcer(
            self._run_id, self._listen, self._clock, self._redaction, self._touch, branch
        )
        made._turn = self._turn
        return made

    def __call__(self, event: str, /, **fields: Any) -> None:
        """`from_` stands for `from`, which Python keeps for itself."""
        self._touch()
        if "from_" in fields:
            fields = {"from": fields.pop("from_"), **fields}
        told = self._redaction.value(fields)
        with self._turn:
            self._listen(
                {
                    "event": event,
                    "time": rfc3339(self._clock.now()),
                    "run_id": self._run_id,
                    **self._mark,
                    **told,
                }
            )
