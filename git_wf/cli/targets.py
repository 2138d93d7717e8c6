"""`--list`: the checkpoints that a target can name."""

from __future__ import annotations

from collections.abc import Sequence

from git_wf.cli.output import short, table, write, write_json
from git_wf.core.checkpoint import FORMAT
from git_wf.ops.project import Project
from git_wf.ops.select import select


def write_targets(project: Project, words: Sequence[str], as_json: bool) -> None:
    """Newest first, with how many checkpoints back each is."""
    selected = select(project, words)
    entries = selected.timeline.entries
    if as_json:
        listed = [entry.to_json() for entry in entries]
        write_json({"format": FORMAT, "run_id": selected.run.run_id, "checkpoints": listed})
        return
    rows = [
        (str(back), f"@{entry.ordinal}", entry.name, entry.status, short(entry.commit))
        for back, entry in enumerate(reversed(entries))
    ]
    rows.append((str(len(entries)), "@0", "before the first node", "", short(selected.run.base)))
    for line in table(rows, right=(0,)):
        write(line)
