"""The program, called in this process, with a clock that stands still and ids in order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from git_wf.cli.main import exit_status
from git_wf.core.names import ulid
from git_wf.ops.host import Host

BEGIN = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


class FakeClock:
    """Moves on by a second a command, and by what is slept; durations are zero."""

    def __init__(self) -> None:
        self.moment = BEGIN

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Some time passes; it can be less than none."""
        self.moment += timedelta(seconds=seconds)


def run_id(number: int) -> str:
    """The id of the n-th run that a `Program` makes in this process.

    What a run leaves behind is found on the whole machine by the run's id, so that two test
    processes at the same time must not have the same.
    """
    moment = int(BEGIN.timestamp() * 1000) + number
    return ulid(moment, bytes(5) + os.getpid().to_bytes(4, "big") + bytes([number]))


@dataclass
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Program:
    """`wf("log", cwd=repo)`: status, stdout and stderr."""

    capture: Callable[[], tuple[str, str]]
    cwd: Path
    clock: FakeClock = field(default_factory=FakeClock)
    made: int = 0

    def __call__(self, *words: str | Path, cwd: Path | None = None) -> Result:
        self.capture()
        where = cwd or self.cwd
        before = Path.cwd()
        os.chdir(where)
        try:
            host = Host(where, dict(os.environ), self.clock, self._new_id)
            status = exit_status([str(word) for word in words], host)
        finally:
            os.chdir(before)
        self.clock.moment += timedelta(seconds=1)
        out, err = self.capture()
        return Result(status, out, err)

    def ok(self, *words: str | Path, cwd: Path | None = None) -> Result:
        """The same, where it has to end with status 0."""
        result = self(*words, cwd=cwd)
        assert result.status == 0, f"{words}: {result.status}\n{result.out}{result.err}"
        return result

    def fails(self, status: int, words: list[str], err: str, cwd: Path | None = None) -> None:
        """It ends with `status`, prints nothing on stdout, and `err` exactly on stderr."""
        result = self(*words, cwd=cwd)
        assert (result.status, result.out, result.err) == (status, "", err)

    def _new_id(self, moment: datetime) -> str:
        self.made += 1
        return run_id(self.made)


@pytest.fixture
def wf(capfd: pytest.CaptureFixture[str], repo: Path) -> Program:
    """The program, in a fresh repository."""
    return Program(lambda: tuple(capfd.readouterr()), repo)  # type: ignore[arg-type]


def write_workflow(path: Path, body: str) -> Path:
    """A workflow file around `body`, with a start and an exit."""
    path.write_text(f"digraph G {{\nstart [shape=Mdiamond]\nexit [shape=Msquare]\n{body}\n}}\n")
    return path
