"""The small records beside `run.json` in the metadata of a run: `start.json`, `manifest.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.graph import Graph


def start_record(record: Mapping[str, Any], branch: str) -> dict[str, Any]:
    """`record` is run.json; `branch` the run branch by its short name."""
    return {
        "format": FORMAT,
        "run_id": record["run_id"],
        "start_time": record["created_at"],
        "run_branch": branch,
        "base_sha": record["base_sha"],
    }


def manifest_record(record: Mapping[str, Any], branch: str, graph: Graph) -> dict[str, Any]:
    return {
        **start_record(record, branch),
        "workflow_name": graph.name or record["workflow_slug"],
        "goal": record["goal"],
        "node_count": len(graph.nodes),
        "edge_count": len(graph.edges),
        "base_branch": record["base_branch"],
    }
