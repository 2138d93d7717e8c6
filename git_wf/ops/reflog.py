"""`git wf reflog`: the whole story of a run's refs, told by its metadata ref.

git's own reflogs stay on one machine and expire; the metadata of a run goes where the run goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.names import Names, Oid, RefName, RunId
from git_wf.core.trailers import parse_trailers
from git_wf.ops.project import Project
from git_wf.ops.select import find_run, find_word, matching_runs
from git_wf.store.runs import RunIndex

_FORMAT = "--format=%H%x00%an <%ae>%x00%aI%x00%B%x00"


@dataclass(frozen=True)
class Move:
    """One thing that happened to a run, or several checkpoints in a row."""

    commit: Oid  # that tells of it; of checkpoints the newest
    author: str
    timestamp: str  # RFC 3339
    title: str  # `rewind to plan@2`, `checkpoints @3 to @6`
    run: str  # of a fork that was made from the run: the new one
    operation: str = ""
    before: Oid | None = None  # where the run branch was before a rewind
    where: str = ""  # the machine
    kept: tuple[RefName, ...] = ()  # what keeps what was left behind, as long as it is there
    ordinals: tuple[int, int] | None = None  # of checkpoints: the oldest and the newest

    def to_json(self) -> dict[str, Any]:
        return {
            "commit": self.commit,
            "author": self.author,
            "timestamp": self.timestamp,
            "title": self.title,
            "run_id": self.run,
            "operation": self.operation or None,
            "from": self.before,
            "where": self.where or None,
            "kept": list(self.kept),
            "ordinals": list(self.ordinals) if self.ordinals else None,
        }


@dataclass(frozen=True)
class Story:
    run_id: RunId
    moves: tuple[Move, ...]  # newest first

    def to_json(self) -> dict[str, Any]:
        moves = [move.to_json() for move in self.moves]
        return {"format": FORMAT, "run_id": self.run_id, "moves": moves}


def read_story(project: Project, word: str | None) -> Story:
    """Of a run, whether it is there, archived, or removed and still kept."""
    known = project.store.refs()
    run, tip = _place(project, word, known)
    own = list(_folded(_own_moves(project, run, tip, known)))
    titles = {move.operation: move.title for move in own}
    own = [replace(move, title=_spoken(move.title, titles)) for move in own]
    others = [*_forks(project, run), *_rescues(project, run)]
    return Story(run, tuple(_merged(own, others)))


def _spoken(title: str, titles: Mapping[str, str]) -> str:
    """`undo 01K…` with the name of what was undone."""
    word, _, operation = title.partition(" ")
    if word in ("undo", "redo") and operation in titles:
        return f"{word} of '{titles[operation]}'"
    return title


def _place(project: Project, word: str | None, known: RunIndex) -> tuple[RunId, Oid | None]:
    """The run, and the tip of its metadata."""
    gone = sorted({kept.run for kept in known.kept.values()} - set(known))
    if (
        word is None
        or matching_runs(project, word, known)
        or not matching_runs(project, word, gone)
    ):
        refs = find_run(project, word, known)
        return refs.run_id, refs.meta_tip
    run = find_word(project, word, gone)
    tips = {kept.operation: ref for ref, kept in known.kept.items()
            if kept.run == run and kept.side == "meta"}  # fmt: skip
    return run, known.tip(tips[max(tips)]) if tips else None


def _own_moves(project: Project, run: RunId, tip: Oid | None, known: RunIndex) -> Iterator[Move]:
    """Newest first; a fork's story ends where it was forked off."""
    if tip is None:
        return
    kept: dict[str, list[RefName]] = {}
    for ref, one in known.kept.items():
        if one.run == run:
            kept.setdefault(one.operation, []).append(ref)
    for move in _read(project, "--first-parent", tip):
        if move.run != run:
            return
        yield replace(move, kept=tuple(sorted(kept.get(move.operation, ()))))


def _forks(project: Project, run: RunId) -> Iterator[Move]:
    """The forks that were made from the run, as far as they are there."""
    names = project.settings.names
    told = f"^{names.trailer('Forked-From')}: {run}$"
    for move in _read(project, f"--grep={told}", f"--glob={names.meta_root}/*"):
        yield replace(move, title=f"forked to {move.run}")


def _rescues(project: Project, run: RunId) -> Iterator[Move]:
    """What was found in a worktree and is kept."""
    told = project.repo.git(
        "for-each-ref", "--format=%(objectname)%00%(refname)%00%(authorname) %(authoremail)%00"
        "%(authordate:iso-strict)", f"{project.settings.names.rescue_root}/{run}/",
    ).decode("utf-8", "replace")  # fmt: skip
    for line in told.splitlines():
        commit, ref, author, timestamp = line.split("\0")
        yield Move(Oid(commit), author, timestamp, "rescue", run, kept=(RefName(ref),))


def _read(project: Project, *args: str) -> Iterator[Move]:
    told = project.repo.git(
        "log", _FORMAT, "--no-show-signature", "--no-notes", "--no-mailmap", "--encoding=UTF-8",
        "--no-color", *args, "--",
    )  # fmt: skip
    parts = told.decode("utf-8", "replace").split("\0")
    for at in range(0, len(parts) - 1, 4):
        commit, author, timestamp, message = parts[at : at + 4]
        yield _move(project.settings.names, Oid(commit.strip()), author, timestamp, message)


def _move(names: Names, commit: Oid, author: str, timestamp: str, message: str) -> Move:
    trailers = parse_trailers(message)
    title = message.split("\n", 1)[0]
    ordinal = trailers.get(names.trailer("Ordinal"), "")
    is_checkpoint = title.startswith("checkpoint ") and ordinal.isdecimal()
    return Move(
        commit=commit,
        author=author,
        timestamp=timestamp,
        title=title,
        run=trailers.get(names.trailer("Run"), ""),
        operation=trailers.get(names.trailer("Op"), ""),
        before=Oid(trailers.get(names.trailer("Rewound-From"), "")) or None,
        where=trailers.get(names.trailer("Where"), ""),
        ordinals=(int(ordinal), int(ordinal)) if is_checkpoint else None,
    )


def _folded(moves: Iterable[Move]) -> Iterator[Move]:
    """Checkpoints in a row become one move."""
    row: Move | None = None
    for move in moves:
        if row and row.ordinals and move.ordinals:
            oldest, newest = move.ordinals[0], row.ordinals[1]
            row = replace(
                row, title=f"checkpoints @{oldest} to @{newest}", ordinals=(oldest, newest)
            )
            continue
        if row:
            yield row
        row = move
    if row:
        yield row


def _merged(own: list[Move], others: list[Move]) -> Iterator[Move]:
    """`others` each in its place by time; the order of `own` is that of the chain, whatever the
    clock said."""
    waiting = sorted(others, key=lambda move: move.timestamp)
    for move in own:
        while waiting and waiting[-1].timestamp > move.timestamp:
            yield waiting.pop()
        yield move
    yield from reversed(waiting)
