"""What Fabro and Arc recorded, in our words (formats.md, section 5).

Their metadata commits have trees of several layouts. In the older ones `checkpoint.json`,
`run.json` (or `manifest.json`) and `start.json` are files of their own; in the newer ones all of
them are inside `run.json`. What a run is made of is put together here; what is missing is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.clock import rfc3339
from git_wf.core.context import IDENTITY_KEYS
from git_wf.core.graph import Edge, Graph, Node
from git_wf.core.names import FOREIGN_NAMESPACES, Oid, trace_name, visit_name
from git_wf.core.outcome import FAILURE_CLASSES, TRANSIENT, Outcome, normal_status
from git_wf.core.timeline import Entry
from git_wf.core.trailers import ForeignCommitFields
from git_wf.core.values import Duration, Value, read_duration

OURS = "wf"  # the dialect of what git-wf writes, in whatever namespace
NO_COMMIT = "no run commit"
NO_METADATA = "no metadata"
GRAPH_FILES = ("graph.fabro", "graph.dot")
TRACE_DIRECTORIES = ("nodes/", "stages/")
RECORDS = ("run.json", "checkpoint.json", "manifest.json", "start.json", "conclusion.json")

Record = Mapping[str, Any]


def first_line(message: str) -> str:
    """All that is compared of a metadata message."""
    return message.split("\n", 1)[0].strip()


def is_ours(record: Any) -> bool:
    """Whether a `run.json` is one that git-wf wrote."""
    return isinstance(record, dict) and "format" in record


def foreign_origin(record: Record) -> Record | None:
    """Of a `run.json` of ours: what the run of Fabro's or Arc's was that it was forked from."""
    first = next(iter(_tables(record.get("lineage"))), None)
    return first if first and first.get("dialect") in FOREIGN_NAMESPACES else None


# What the files of a metadata tree say. `files` are those of RECORDS that are there, decoded.


def checkpoint_record(files: Mapping[str, Record]) -> Record | None:
    """The checkpoint as it was recorded, wherever the layout has it."""
    found = files.get("checkpoint.json") or _table(files.get("run.json"), "checkpoint")
    return found if found and found.get("current_node") else None


def conclusion_record(files: Mapping[str, Record]) -> Record | None:
    return files.get("conclusion.json") or _table(files.get("run.json"), "conclusion") or None


def spec_record(files: Mapping[str, Record]) -> Record:
    """What a run is made of, in `run.json`; empty where there is none."""
    outer = files.get("run.json") or {}
    return _table(outer, "spec") or outer


def run_record(run: str, files: Mapping[str, Record]) -> dict[str, Any]:
    """What is known of a run, by the names that our own `run.json` has. `base_sha` is not there:
    the recorded one is wrong more often than right."""
    outer, spec = files.get("run.json") or {}, spec_record(files)
    manifest = files.get("manifest.json") or {}
    start = files.get("start.json") or _table(outer, "start")
    git = _table(spec, "git")
    graph = foreign_graph(spec)
    goal = manifest.get("goal") or (graph.text("goal") if graph else None)
    return {
        "run_id": run,
        "created_at": _moment(
            spec.get("created_at") or manifest.get("start_time") or start.get("start_time")
        ),
        "workflow_slug": spec.get("workflow_slug")
        or manifest.get("workflow_name")
        or (graph.name if graph else None),
        "working_directory": spec.get("working_directory"),
        "host_repo_path": spec.get("host_repo_path") or spec.get("source_directory"),
        "base_branch": spec.get("base_branch") or manifest.get("base_branch") or git.get("branch"),
        "labels": _texts(spec.get("labels")),
        "inputs": {},
        "config": _config(spec),
        "goal": goal,
        "graph": graph.to_json() if graph else None,
        "forked_from": None,
        "lineage": [],
    }


def _config(spec: Record) -> dict[str, Any]:
    """Of their configuration what ours has as well: the patterns kept out of checkpoints."""
    run = _table(_table(spec, "settings"), "run")
    globs = _list(_table(run, "checkpoint").get("exclude_globs"))
    return {"checkpoint": {"exclude_globs": globs}} if globs else {}


def foreign_graph(spec: Record) -> Graph | None:
    """The graph in a `run.json`: prompts and goal are in it, files that they came from are not."""
    found = spec.get("graph")
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), dict):
        return None
    nodes = {
        str(id_): Node(str(id_), attrs=_attributes(_table(one, "attrs")))
        for id_, one in found["nodes"].items()
    }
    edges = [
        Edge(
            str(one.get("from")), str(one.get("to")), index, attrs=_attributes(_table(one, "attrs"))
        )
        for index, one in enumerate(_tables(found.get("edges")))
    ]
    ordered = _in_order(nodes, edges)
    attrs = _attributes(_table(found, "attrs"))
    return Graph(attrs=attrs, name=str(found.get("name") or ""), nodes=ordered, edges=edges)


def _in_order(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> dict[str, Node]:
    """The nodes as the edges come upon them: their own order is that of a hash."""
    ends = (end for edge in edges for end in (edge.source, edge.target))
    known = [id_ for id_ in dict.fromkeys(ends) if id_ in nodes]
    return {id_: nodes[id_] for id_ in dict.fromkeys([*known, *sorted(nodes)])}


def _attributes(attrs: Record) -> dict[str, Value]:
    """`{"max_visits": {"Integer": 3}}` and `{"max_visits": 3}` are the same."""
    found: dict[str, Value] = {}
    for key, value in attrs.items():
        kind = ""
        if isinstance(value, dict) and len(value) == 1:
            ((kind, value),) = value.items()
        if isinstance(value, dict) and isinstance(value.get("secs"), int):
            value = f"{value['secs'] * 1000 + int(value.get('nanos') or 0) // 1_000_000}ms"
        if kind == "Duration":
            value = read_duration(f"{value}ms" if isinstance(value, int) else str(value)) or value
        if isinstance(value, (str, int, float, Duration)):
            found[str(key)] = value
    return found


def is_trace_of(path: str, node: str, visit: int) -> bool:
    """Whether a file of a metadata tree is of the trace of a visit: `nodes/fix-visit_2/…`, or
    `stages/007-fix@2/…`."""
    top, _, rest = path.partition("/")
    name = rest.split("/", 1)[0]
    if top == "nodes":
        return name == trace_name(node, visit)
    counted = re.sub(r"^[0-9]+-", "", name)
    return visit_name(node, visit) in (name, counted)


# A checkpoint.


@dataclass(frozen=True)
class ForeignCheckpoint:
    """What the metadata says of a checkpoint."""

    metadata_commit: Oid
    node: str
    visit: int | None  # None: to be counted
    status: str  # as it is spelled there
    next_node_id: str | None
    timestamp: str
    duration_ms: int | None
    commit: Oid | None  # that it names itself; most do not

    @classmethod
    def read(cls, metadata_commit: Oid, record: Record) -> ForeignCheckpoint:
        node = str(record["current_node"])
        outcome = _table(_table(record, "node_outcomes"), node)
        next_node = record.get("next_node_id")
        return cls(
            metadata_commit=metadata_commit,
            node=node,
            visit=_count(_table(record, "node_visits").get(node)),
            status=str(outcome.get("status") or ""),
            next_node_id=str(next_node) if next_node else None,
            timestamp=_moment(record.get("timestamp")) or "",
            duration_ms=_count(outcome.get("duration_ms")),
            commit=Oid(str(record["git_commit_sha"])) if record.get("git_commit_sha") else None,
        )

    def is_repeated(self, before: ForeignCheckpoint) -> bool:
        """Whether this is the state of the checkpoint before, committed once more."""
        same = replace(self, metadata_commit=before.metadata_commit) == before
        return same and bool(self.timestamp)


def is_start(record: Record, graph: Graph | None) -> bool:
    """Whether a checkpoint is that of the start node, which makes no commit."""
    node = str(record["current_node"])
    if list(record.get("completed_nodes") or [node]) != [node]:
        return False
    if graph is not None and node in graph.nodes:
        return graph.nodes[node].kind == "start"
    return node.lower() == "start"


def own_checkpoint(run: str, record: Record, ordinal: int, previous: Entry | None) -> Checkpoint:
    """A recorded checkpoint as one of ours. What has another type than it should is left out."""
    outcomes = _table(record, "node_outcomes")
    context = {
        str(key): value
        for key, value in _table(record, "context_values").items()
        if key not in IDENTITY_KEYS
    }
    # An older layout counts attempts, a newer one retries: in the older one nothing is below 1.
    retries = _counts(record.get("node_retries"))
    less = 1 if retries and min(retries.values()) > 0 and "logs" in record else 0
    next_node = record.get("next_node_id")
    made = Checkpoint(
        run_id=run,
        ordinal=ordinal,
        timestamp=_moment(record.get("timestamp")) or "",
        current_node=str(record["current_node"]),
        next_node_id=str(next_node) if next_node else None,
        completed_nodes=[str(node) for node in record.get("completed_nodes") or []],
        node_visits=_counts(record.get("node_visits")),
        node_retries={node: count - less for node, count in retries.items() if count > less},
        node_outcomes={
            str(node): own_outcome(one) for node, one in outcomes.items() if isinstance(one, dict)
        },
        context_values=context,
        git_commit_sha=record.get("git_commit_sha"),
        loop_failure_signatures=_counts(record.get("loop_failure_signatures")),
        restart_failure_signatures=_counts(record.get("restart_failure_signatures")),
    )
    if previous is not None:
        before = replace(made, ordinal=previous.ordinal, current_node=previous.node)
        before.node_visits = {previous.node: previous.visit}
        made.previous = {
            **before.as_previous(previous.commit, previous.metadata_commit),
            "status": previous.status,
        }
    return made


def own_outcome(record: Record) -> Outcome:
    failure = _table(record, "failure")
    kind = str(failure.get("class") or failure.get("failure_class") or "")
    kind = TRANSIENT if kind == "transient_infra" else kind
    told = {
        "status": str(record.get("status") or ""),
        "preferred_label": _text(record.get("preferred_label")),
        "suggested_next_ids": _list(record.get("suggested_next_ids")),
        "context_updates": _table(record, "context_updates"),
        "notes": _text(record.get("notes")),
        "usage": _usage(_table(record, "usage")),
        "files_touched": _list(record.get("files_touched")),
        "duration_ms": _count(record.get("duration_ms")) or 0,
    }
    if failure:
        told["failure"] = {
            "message": _text(failure.get("message")),
            "class": kind if kind in FAILURE_CLASSES else "",
            "signature": _text(failure.get("signature") or failure.get("failure_signature")),
        }
    return Outcome.from_json(told)


def _usage(usage: Record) -> dict[str, Any] | None:
    """Tokens and cost, from either of two layouts."""
    tokens = _table(_table(_table(usage, "input"), "usage"), "tokens") or usage
    found: dict[str, Any] = {
        key: tokens[key]
        for key in ("input_tokens", "output_tokens")
        if isinstance(tokens.get(key), int)
    }
    micros, cost = usage.get("total_usd_micros"), usage.get("cost")
    if isinstance(micros, (int, float)):
        found["cost_usd"] = micros / 1_000_000
    elif isinstance(cost, (int, float)):
        found["cost_usd"] = float(cost)
    return found or None


def run_status(conclusion: Record | None, is_finalized: bool, last: Entry | None) -> str:
    """How a run ended. Where no conclusion was recorded, its last checkpoint stands for it."""
    told = str((conclusion or {}).get("status") or "")
    if told:
        return normal_status(told.lower()) or "unknown"
    if is_finalized and last is not None:
        return last.status if normal_status(last.status) else "unknown"
    return "unknown"  # it may go on somewhere else


# Both sides, joined.


@dataclass(frozen=True)
class ForeignCommit:
    """A commit of the run itself, on the first-parent chain of the run branch."""

    commit: Oid
    parents: tuple[Oid, ...]
    seconds: int  # since 1970
    fields: ForeignCommitFields


_Row = tuple[ForeignCheckpoint | None, ForeignCommit | None]


def join(
    run: str, recorded: Sequence[ForeignCheckpoint], commits: Sequence[ForeignCommit]
) -> tuple[Entry, ...]:
    """The timeline: the union of what the metadata and the run branch know, each oldest first.

    A checkpoint is joined to the commit whose trailer names it (or that it names itself), else to
    the k-th commit of its node, k being how often the node came before. A commit that no metadata
    knows has its place by ancestry.
    """
    made = [one for one in commits if one.fields.is_checkpoint]
    joined = _joined(recorded, made)
    known = {one.commit: at for at, one in joined.items()}
    rows: list[_Row] = []
    told = 0  # how many of `recorded` are in `rows`
    for one in made:
        # Where nothing says where a commit stands, it comes after all that is known.
        reach = known[one.commit] + 1 if one.commit in known else 0 if known else len(recorded)
        rows += [(recorded[at], joined.get(at)) for at in range(told, reach)]
        told = max(told, reach)
        if one.commit not in known:
            rows.append((None, one))
    rows += [(recorded[at], joined.get(at)) for at in range(told, len(recorded))]
    return tuple(_entries(run, rows))


def _joined(
    recorded: Sequence[ForeignCheckpoint], made: Sequence[ForeignCommit]
) -> dict[int, ForeignCommit]:
    """Position in `recorded` → its commit."""
    by_metadata = {one.metadata_commit: at for at, one in enumerate(recorded)}
    by_commit = {one.commit: at for at, one in enumerate(recorded) if one.commit}
    found: dict[int, ForeignCommit] = {}
    for one in made:
        at = by_metadata.get(Oid(one.fields.metadata_commit or ""))
        at = by_commit.get(one.commit) if at is None else at
        if at is not None and recorded[at].node == one.fields.node:
            found.setdefault(at, one)
    taken = {one.commit for one in found.values()}
    places = {name: at for at, name in enumerate(_occurrences([one.node for one in recorded]))}
    names = _occurrences([one.fields.node for one in made])
    for one, name in zip(made, names, strict=True):
        if one.commit not in taken and name in places:
            found.setdefault(places[name], one)
    return found


def _occurrences(nodes: Sequence[str]) -> list[tuple[str, int]]:
    seen: dict[str, int] = {}
    found = []
    for node in nodes:
        seen[node] = seen.get(node, 0) + 1
        found.append((node, seen[node]))
    return found


def _entries(run: str, rows: Iterable[_Row]) -> Iterator[Entry]:
    seen: dict[str, int] = {}
    for ordinal, (recorded, made) in enumerate(rows, 1):
        node = recorded.node if recorded else made.fields.node if made else ""
        counted = seen.get(node, 0) + 1
        visit = recorded.visit if recorded and recorded.visit else counted
        seen[node] = visit
        status = (recorded.status if recorded else "") or (made.fields.status if made else "")
        timestamp = recorded.timestamp if recorded else ""
        if made and not timestamp:
            timestamp = rfc3339(datetime.fromtimestamp(made.seconds, timezone.utc))
        missing = [NO_METADATA] if recorded is None else [NO_COMMIT] if made is None else []
        yield Entry(
            ordinal=ordinal,
            node=node,
            visit=visit,
            status=normal_status(status) or status,
            recorded_status=status,
            commit=made.commit if made else None,
            metadata_commit=recorded.metadata_commit if recorded else None,
            run=run,
            timestamp=timestamp,
            next_node_id=recorded.next_node_id if recorded else None,
            duration_ms=recorded.duration_ms if recorded else None,
            merged=made.parents[1:] if made else (),
            notes=tuple(missing),
        )


# Small readers of JSON that somebody else wrote: what has another type is as if it were absent.


def _table(record: Record | None, key: str) -> dict[str, Any]:
    found = record.get(key) if isinstance(record, Mapping) else None
    return found if isinstance(found, dict) else {}


def _tables(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _list(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(one) for key, one in value.items()} if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _counts(value: Any) -> dict[str, int]:
    found = value.items() if isinstance(value, dict) else ()
    return {str(key): count for key, one in found if (count := _count(one)) is not None}


def _moment(value: Any) -> str | None:
    """A time as ours are written; as it is where it is none."""
    if not isinstance(value, str) or not value:
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return value
    return rfc3339(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))
