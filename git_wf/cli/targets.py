"""`--list`: the checkpoints that a target can name; and what a target was taken for."""

from __future__ import annotations

from collections.abc import Sequence

from git_wf.cli.output import short, table, write, write_error, write_json
from git_wf.core.checkpoint import FORMAT
from git_wf.core.timeline import Entry
from git_wf.ops.project import Project
from git_wf.ops.select import select


def tell_section(words: Sequence[str], entry: Entry) -> None:
    """Says so where the target is inside a parallel section, and so stands for all of it."""
    if entry.section:
        write_error(
            f"notice: '{words[-1]}' is inside the section of fan-out '{entry.section}': "
            "this is the state before it, from which all of it runs again"
        )


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
