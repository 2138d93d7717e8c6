"""What an operation is handed by the machine: where it stands, the environment, clock and ids."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from git_wf.core.clock import Clock


class SystemClock:
    def now(self) -> datetime:
        return datetime.now().astimezone()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class StandingClock:
    """A clock whose date is fixed, as `GIT_COMMITTER_DATE` asks for; durations are real."""

    moment: datetime
    inner: Clock

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.inner.monotonic()

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)


def new_ulid(moment: datetime) -> str:
    from ulid import ULID

    return str(ULID.from_datetime(moment))


@dataclass(frozen=True)
class Host:
    cwd: Path
    env: Mapping[str, str]
    clock: Clock
    new_id: Callable[[datetime], str] = new_ulid

    @classmethod
    def system(cls) -> Host:
        return cls(Path.cwd(), dict(os.environ), SystemClock())
