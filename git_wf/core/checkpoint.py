"""The checkpoint record, and how it becomes JSON and comes back (formats.md, section 3).

| field | what |
|---|---|
| `ordinal` | position in the timeline, from 1 |
| `previous` | `{ordinal, node, visit, status, commit, metadata_commit}` of the checkpoint before |
| `timestamp` | RFC 3339, UTC, microseconds |
| `current_node`, `next_node_id` | the node just completed; the one that comes next, or None |
| `incoming_edge` | `{from, to, fidelity, thread_id}` of the edge chosen |
| `completed_nodes` | in order, with repeats, the start node included |
| `node_visits`, `node_retries` | counts by node; retries only where there were any |
| `node_outcomes` | the last outcome of each node |
| `context_values` | the context; values moved to artifacts are `{"$artifact": key}` |
| `git_commit_sha` | the run commit; None in the checkpoint's own metadata tree |
| `git_tree_sha`, `git_parent_sha` | tree and parent of the run commit |
| `totals` | `duration_ms, retries, input_tokens, output_tokens, cost_usd` so far |
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any

from git_wf.core.outcome import Outcome
from git_wf.errors import StateUnreadable

FORMAT = 1


@dataclass
class Checkpoint:
    run_id: str
    ordinal: int = 0
    previous: dict[str, Any] | None = None
    timestamp: str = ""
    current_node: str = ""
    next_node_id: str | None = None
    incoming_edge: dict[str, Any] | None = None
    completed_nodes: list[str] = field(default_factory=list)
    node_visits: dict[str, int] = field(default_factory=dict)
    node_retries: dict[str, int] = field(default_factory=dict)
    node_outcomes: dict[str, Outcome] = field(default_factory=dict)
    context_values: dict[str, Any] = field(default_factory=dict)
    git_commit_sha: str | None = None
    git_tree_sha: str | None = None
    git_parent_sha: str | None = None
    totals: dict[str, Any] = field(default_factory=dict)
    loop_failure_signatures: dict[str, int] = field(default_factory=dict)
    restart_failure_signatures: dict[str, int] = field(default_factory=dict)
    logs: list[Any] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def visit(self) -> int:
        """Which visit of `current_node` this is."""
        return self.node_visits.get(self.current_node, 1)

    @property
    def outcome(self) -> Outcome | None:
        return self.node_outcomes.get(self.current_node)

    @property
    def status(self) -> str:
        return self.outcome.status if self.outcome else ""

    def as_previous(self, commit: str | None, metadata_commit: str | None) -> dict[str, Any]:
        """What the next checkpoint says of this one."""
        return {
            "ordinal": self.ordinal,
            "node": self.current_node,
            "visit": self.visit,
            "status": self.status,
            "commit": commit,
            "metadata_commit": metadata_commit,
        }

    def to_json(self) -> dict[str, Any]:
        outcomes = {node: outcome.to_json() for node, outcome in self.node_outcomes.items()}
        return {
            **self.extra,
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "node_outcomes": outcomes,
        }

    @classmethod
    def from_json(cls, data: Any, origin: str) -> Checkpoint:
        """Raises `StateUnreadable`, naming `origin`, where `data` is no checkpoint that we know."""
        check_format(data, origin)
        known = {name: data[name] for name in _PLAIN if name in data}
        for name, value in known.items():
            if not _has_type(name, value):
                raise StateUnreadable(f"read checkpoint '{origin}': '{name}' has the wrong type")
        if not known.get("run_id") or not known.get("current_node"):
            raise StateUnreadable(f"read checkpoint '{origin}': no run_id or no current_node")
        outcomes = data.get("node_outcomes") or {}
        if not isinstance(outcomes, dict) or not all(
            isinstance(value, dict) for value in outcomes.values()
        ):
            raise StateUnreadable(f"read checkpoint '{origin}': 'node_outcomes' has the wrong type")
        try:
            read = {node: Outcome.from_json(value) for node, value in outcomes.items()}
        except (TypeError, ValueError) as err:
            told = f"read checkpoint '{origin}': 'node_outcomes' has the wrong type"
            raise StateUnreadable(told) from err
        return cls(
            **known,
            node_outcomes=read,
            extra={
                key: value
                for key, value in data.items()
                if key not in _PLAIN and key not in ("format", "node_outcomes")
            },
        )


@dataclass(frozen=True)
class BranchConflict:
    """Two parallel branches, by name, that could not be merged as they are now, and where."""

    branches: tuple[str, str]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Recorded:
    """What a recorder made of a checkpoint. Notices are (code, message)."""

    commit: str | None  # the run commit; None where nothing is committed (an in-place run)
    metadata_commit: str | None
    notices: tuple[tuple[str, str], ...] = ()
    conflicts: tuple[BranchConflict, ...] = ()  # that are coming; none is told twice


_TEXT_OR_NONE = (str, type(None))
_PLAIN: dict[str, type | tuple[type, ...]] = {
    "run_id": str,
    "ordinal": int,
    "previous": (dict, type(None)),
    "timestamp": str,
    "current_node": str,
    "next_node_id": _TEXT_OR_NONE,
    "incoming_edge": (dict, type(None)),
    "completed_nodes": list,
    "node_visits": dict,
    "node_retries": dict,
    "context_values": dict,
    "git_commit_sha": _TEXT_OR_NONE,
    "git_tree_sha": _TEXT_OR_NONE,
    "git_parent_sha": _TEXT_OR_NONE,
    "totals": dict,
    "loop_failure_signatures": dict,
    "restart_failure_signatures": dict,
    "logs": list,
}


_INSIDE: dict[str, type] = {
    "completed_nodes": str,
    "node_visits": int,
    "node_retries": int,
    "loop_failure_signatures": int,
    "restart_failure_signatures": int,
}


def _has_type(name: str, value: Any) -> bool:
    """Whether a field of the record has its type, and what is in it too."""
    kind = _INSIDE.get(name, object)
    inside: Iterable[Any] = ()
    if name in _INSIDE and isinstance(value, dict):
        inside = value.values()
    elif name in _INSIDE and isinstance(value, list):
        inside = value
    return _is(value, _PLAIN[name]) and all(_is(one, kind) for one in inside)


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    """`isinstance`, but true and false are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_format(data: Any, origin: str) -> None:
    """Refuses what is no JSON object, and a newer format than this program knows, by name."""
    if not isinstance(data, dict):
        raise StateUnreadable(f"read '{origin}': not a JSON object")
    version = data.get("format", FORMAT)
    if not isinstance(version, int):
        raise StateUnreadable(f"read '{origin}': 'format' has the wrong type")
    if version > FORMAT:
        raise StateUnreadable(
            f"read '{origin}': format {version} is newer than this git-wf knows ({FORMAT})",
            hint="upgrade git-wf",
        )


def dump_json(data: Any) -> bytes:
    """How every record is written: UTF-8, two spaces, sorted keys, so that two diff well.

    A byte of an argument or path that is not UTF-8 is a lone surrogate in Python; written as an
    escape (`\\udcff`) it is JSON that reads back as it was.
    """
    return _pretty(data, "\n").encode("utf-8", "backslashreplace") + b"\n"


_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _pretty(value: Any, newline: str) -> str:
    """What `json.dumps` makes with `indent=2` and sorted keys, in a third of its time.

    A run's record grows with every visit and is written three times a checkpoint.
    """
    inner = f"{newline}  "
    if isinstance(value, dict) and value:
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"a key is no text: {list(value)}")
        items = [f"{encode_basestring(key)}: {_pretty(value[key], inner)}" for key in sorted(value)]
        return f"{{{inner}{f',{inner}'.join(items)}{newline}}}"
    if isinstance(value, (list, tuple)) and value:
        if all(type(one) is str for one in value):
            words = list(map(encode_basestring, value))
        else:
            words = [_pretty(one, inner) for one in value]
        return f"[{inner}{f',{inner}'.join(words)}{newline}]"
    return encode_basestring(value) if isinstance(value, str) else _plain(value)


def load_json(data: bytes, origin: str) -> Any:
    """Raises `StateUnreadable`, naming `origin` and the place, where `data` is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise StateUnreadable(f"read '{origin}': not valid JSON: {err}") from err
