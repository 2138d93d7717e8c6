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

Fabro and Arc put a credit line after their trailers, and git sees none of them: in a message of
theirs every line that reads as a trailer is one (formats.md, section 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from git_wf.core.names import FOREIGN_NAMESPACES, Names

# C0 but tab, DEL, C1, and the marks that reorder text on a terminal.
CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[{CONTROL}]")
# Bytes that were not UTF-8, and halves of characters: no commit message could hold the latter.
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]*): ?(.*)")
_TRAILER_LINE = re.compile(r"^([A-Za-z][A-Za-z0-9-]*): ?(.*)$", re.MULTILINE)
_SUBJECT = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\((\S+?)\): (\S+) \((\w+)\)")
_PARALLEL_BASE = "parallel_base"  # where the branches of a section start, in place of a status
MAX_NOTES = 4096  # characters of free text in a message; all of it is in checkpoint.json


class RunCommitFields(NamedTuple):
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
    if text.isprintable() and "  " not in text and text == text.strip():
        return text  # as most are
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


def own_fields(names: Names, text: str) -> dict[str, str]:
    """The trailers of a message of ours by their keys without the namespace: `Ordinal`, `Next`.

    Of any namespace that we read: a run that was forked has a past in another one.
    """
    found: dict[str, str] = {}
    for key, value in parse_trailers(text).items():
        prefix = next((one for one in names.read_prefixes if key.startswith(one)), None)
        if prefix is not None:
            found[key[len(prefix) :]] = value
    return found


def trailer_lines(text: str) -> dict[str, str]:
    """Key → value of every line that reads as a trailer, wherever it stands; the last one holds."""
    return {key: value.strip() for key, value in _TRAILER_LINE.findall(text)}


@cache
def _checkpoint_as_written(namespace: str) -> re.Pattern[str]:
    """The message of a checkpoint's metadata commit, as we write it."""
    mark = re.escape(Names(namespace).trailer(""))
    return re.compile(
        rf"checkpoint (?P<name>\S+)\n\n{mark}Run: (?P<run>\w+)\n"
        rf"(?:{mark}(?!Branch|Ordinal|Next|Duration-Ms)[A-Z][A-Za-z-]*: .*\n)*"
        rf"{mark}Ordinal: (?P<ordinal>\d+)\n(?:{mark}Next: (?P<next>\S+)\n)?"
        rf"{mark}Duration-Ms: (?P<duration>\d+)\n"
        rf"(?:{mark}(?!Branch)[A-Z][A-Za-z-]*: .*\n)*"
    )


def checkpoint_fields(names: Names, text: str) -> tuple[str, str, str, str | None, str] | None:
    """Run, visit, ordinal, next node and duration in ms of a checkpoint's metadata message.

    None where it is not in the form that we write now: `own_fields` reads any.
    """
    found = _checkpoint_as_written(names.namespace).fullmatch(text)
    if found is None:
        return None
    return found["run"], found["name"], found["ordinal"], found["next"], found["duration"]


@cache
def _as_written(namespace: str) -> tuple[str, re.Pattern[str]]:
    """What the trailers of a run commit begin with, and all of them, as we write them."""
    mark = re.escape(Names(namespace).trailer(""))
    keys = (
        ("Run", r"\w+"), ("Completed", r"\d+"), ("Checkpoint", "[0-9a-f]+"), ("Node", r"\S+"),
        ("Visit", r"\d+"), ("Status", r"\w+"),
    )  # fmt: skip
    lines = "".join(rf"{mark}{key}: ({value})\n" for key, value in keys)
    return f"\n\n{Names(namespace).trailer('Run')}: ", re.compile(rf"\n\n{lines}\Z")


def run_commit_fields(names: Names, text: str) -> RunCommitFields | None:
    """What a message says, if it is that of a run commit of ours in a namespace that we read."""
    begin, shape = _as_written(names.namespace)
    found = shape.match(text, text.rfind(begin))
    if found is not None:  # the common case, in a third of the time
        run, completed, checkpoint, node, visit, status = found.groups()
        if text.startswith(f"{names.namespace}({run}): {node} ({status})\n"):
            return RunCommitFields(run, node, int(visit), status, int(completed), checkpoint)
    return _any_run_commit_fields(names, text)


def _any_run_commit_fields(names: Names, text: str) -> RunCommitFields | None:
    """The same, of a message in any form: in another namespace, or written by an older version."""
    matched = _SUBJECT.fullmatch(text.split("\n", 1)[0])
    if matched is None or matched[1] not in names.read_namespaces:
        return None
    trailers: Mapping[str, str] = parse_trailers(text)
    word = names if matched[1] == names.namespace else Names(matched[1])
    if trailers.get(word.trailer("Run")) != matched[2]:
        return None
    if matched[1] in FOREIGN_NAMESPACES and word.trailer("Node") not in trailers:
        return None  # theirs
    visit = trailers.get(word.trailer("Visit"), "")
    return RunCommitFields(
        run=matched[2],
        node=trailers.get(word.trailer("Node"), matched[3]),
        visit=int(visit) if visit.isdecimal() else 1,
        status=trailers.get(word.trailer("Status"), matched[4]),
        completed=_number(trailers.get(word.trailer("Completed"), "")),
        metadata_commit=trailers.get(word.trailer("Checkpoint")) or None,
        branch=trailers.get(word.trailer("Branch"), ""),
    )


@dataclass(frozen=True)
class ForeignCommitFields:
    """What the message of a run commit of Fabro's or Arc's says."""

    dialect: str
    run: str
    node: str
    status: str  # as it is spelled there
    completed: int | None  # None of a commit in a parallel branch
    metadata_commit: str | None

    @property
    def is_checkpoint(self) -> bool:
        """A section's base, and a commit in one of its branches, are none."""
        return self.completed is not None and self.status != _PARALLEL_BASE


def foreign_commit_fields(text: str) -> ForeignCommitFields | None:
    """What a message says, if it is that of a run commit of Fabro's or Arc's."""
    matched = _SUBJECT.fullmatch(text.split("\n", 1)[0])
    if matched is None or matched[1] not in FOREIGN_NAMESPACES:
        return None
    names, trailers = Names(matched[1]), trailer_lines(text)
    return ForeignCommitFields(
        dialect=matched[1],
        run=matched[2],
        node=matched[3],
        status=matched[4],
        completed=_number(trailers.get(names.trailer("Completed"), "")),
        metadata_commit=trailers.get(names.trailer("Checkpoint")) or None,
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
