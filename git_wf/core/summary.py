"""What a list of runs shows of one, in the trailers of its metadata commits.

So that a list opens no record: `init run`, `checkpoint plan@2` and `finalize run` tell the
workflow, when the run was created, its labels, where it stands and how it ended. A run with more
to tell (a fork, a child, one that waits or was rewound) has no such trailers: its record is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.names import Names
from git_wf.core.trailers import one_line

_TITLE = re.compile(r"(?P<verb>init run|finalize run|checkpoint (?P<node>\S+)@[0-9]+)")

Pairs = tuple[tuple[str, str], ...]


class Summary(NamedTuple):
    workflow: str
    created_at: str
    status: str  # how it ended; empty where it has not
    checkpoints: int
    node: str | None
    labels: Mapping[str, str]


def summary_trailers(record: Mapping[str, Any]) -> Pairs:
    """Of a run record; nothing where trailers would not tell all that a list shows."""
    labels = {str(key): str(value) for key, value in (record.get("labels") or {}).items()}
    values = (record.get("workflow_slug"), record.get("created_at"))
    texts = [text for text in (*values, *labels, *labels.values()) if isinstance(text, str)]
    is_plain = len(texts) == 2 + 2 * len(labels) and all(
        text and text == one_line(text) for text in texts
    )
    if not is_plain or record.get("forked_from") or record.get("parent"):
        return ()
    if any("=" in key for key in labels):
        return ()
    pairs = (("Workflow", str(values[0])), ("Created", str(values[1])))
    return (*pairs, *(("Label", f"{key}={value}") for key, value in labels.items()))


def ending_trailers(status: str, checkpoint: Checkpoint | None) -> Pairs:
    """What `finalize run` adds."""
    if checkpoint is None:
        return (("Status", status),)
    told = (("Ordinal", str(checkpoint.ordinal)), ("Node", checkpoint.current_node))
    return (("Status", status), *told)


@cache
def _line(names: Names) -> re.Pattern[str]:
    return re.compile(rf"^{re.escape(names.trailer(''))}([A-Za-z-]+): (.*)$", re.MULTILINE)


def read_summary(names: Names, message: str) -> Summary | None:
    """What a metadata message tells; None where the record is to be read."""
    title = _TITLE.match(message)
    if title is None or message[title.end() : title.end() + 1] != "\n":
        return None
    pairs = _line(names).findall(message, title.end())
    told = dict(pairs)
    workflow, created, ordinal = told.get("Workflow"), told.get("Created"), told.get("Ordinal", "0")
    if not workflow or not created or not ordinal.isdecimal():
        return None
    is_final = title["verb"] == "finalize run"
    if is_final != ("Status" in told):
        return None
    return Summary(
        workflow=workflow,
        created_at=created,
        status=told.get("Status", ""),
        checkpoints=int(ordinal),
        node=title["node"] or told.get("Node"),
        labels=dict(value.split("=", 1) for key, value in pairs if key == "Label" and "=" in value),
    )
