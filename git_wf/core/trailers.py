"""Commit messages and the fields in them: what links a run commit to its metadata commit.

A run commit (formats.md, section 1):

    wf(01JKXYZ…): plan (success)

        free text of the outcome, every line indented

    WF-Run: 01JKXYZ…
    WF-Completed: 2
    WF-Checkpoint: <metadata commit>
    WF-Node: plan
    WF-Visit: 1
    WF-Status: success

The trailers are the last paragraph, always, so that `git interpret-trailers --parse` and
`%(trailers)` see them. Free text is indented by four spaces: a bare `---` or scissors line there
would make git lose the trailers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from git_wf.core.names import Names

# C0 but tab, DEL, C1, and the marks that reorder text on a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Bytes that were not UTF-8, and halves of characters: no commit message could hold the latter.
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]*): ?(.*)")
MAX_NOTES = 4096  # characters of free text in a message; all of it is in checkpoint.json


@dataclass(frozen=True)
class RunCommitFields:
    """What the message of a run commit says."""

    run: str
    node: str
    visit: int
    status: str
    completed: int | None
    metadata_commit: str | None
    branch: str = ""  # `f@1/1-a`, of a commit in a parallel branch


def plain_text(text: str) -> str:
    """`text` without control codes: safe in a message and on a terminal. Newlines stay."""
    text = _SURROGATE.sub("\ufffd", text)
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    return " ".join(plain_text(text).split())


def message(subject: str, trailers: Iterable[tuple[str, str]], notes: str = "") -> str:
    """A commit message whose last paragraph is the trailers."""
    parts = [one_line(subject)]
    lines = [line.rstrip() for line in plain_text(notes[:MAX_NOTES]).split("\n")]
    text = "\n".join(f"    {line}" if line else "" for line in lines).strip("\n")
    if text:
        parts.append(text)
    parts.append("\n".join(f"{key}: {one_line(value)}" for key, value in trailers))
    return "\n\n".join(parts) + "\n"


def run_commit_message(names: Names, fields: RunCommitFields, notes: str = "") -> str:
    values = [
        ("Run", fields.run),
        ("Completed", str(fields.completed)),
        ("Checkpoint", fields.metadata_commit or ""),
        ("Node", fields.node),
        ("Visit", str(fields.visit)),
        ("Status", fields.status),
    ]
    if fields.branch:
        values.append(("Branch", fields.branch))
    return message(
        names.subject(fields.run, fields.node, fields.status),
        [(names.trailer(key), value) for key, value in values],
        notes,
    )


def metadata_message(
    names: Names,
    run: str,
    first_line: str,
    repeated: Iterable[tuple[str, str]] = (),
    /,
    **trailers: str,
) -> str:
    """The message of a metadata commit. `Rewound_From="…"` becomes `WF-Rewound-From: …`.

    A trailer without a value is left out; `repeated` are such as can stand there several times.
    """
    given = ((key.replace("_", "-"), text) for key, text in trailers.items() if text)
    values = [("Run", run), *given, *repeated]
    return message(first_line, [(names.trailer(key), value) for key, value in values])


def parse_trailers(text: str) -> dict[str, str]:
    """Key → value of the last paragraph, where all of its lines are trailers; else nothing."""
    return dict(parse_trailer_pairs(text))


def parse_trailer_pairs(text: str) -> list[tuple[str, str]]:
    """The same, in order: a key can stand there several times."""
    paragraph = text.rstrip("\n").rsplit("\n\n", 1)
    if len(paragraph) == 1:
        return []
    found = []
    for line in paragraph[1].split("\n"):
        matched = _TRAILER.fullmatch(line)
        if matched is None:
            return []
        found.append((matched[1], matched[2].strip()))
    return found


def run_commit_fields(names: Names, text: str) -> RunCommitFields | None:
    """What a message says, if it is that of a run commit in the namespace of `names`."""
    subject = text.split("\n", 1)[0]
    matched = re.fullmatch(rf"{re.escape(names.namespace)}\((\S+)\): (\S+) \((\w+)\)", subject)
    if matched is None:
        return None
    trailers: Mapping[str, str] = parse_trailers(text)
    if trailers.get(names.trailer("Run")) != matched[1]:
        return None
    completed = trailers.get(names.trailer("Completed"), "")
    visit = trailers.get(names.trailer("Visit"), "")
    return RunCommitFields(
        run=matched[1],
        node=trailers.get(names.trailer("Node"), matched[2]),
        visit=int(visit) if visit.isdecimal() else 1,
        status=trailers.get(names.trailer("Status"), matched[3]),
        completed=int(completed) if completed.isdecimal() else None,
        metadata_commit=trailers.get(names.trailer("Checkpoint")) or None,
        branch=trailers.get(names.trailer("Branch"), ""),
    )
