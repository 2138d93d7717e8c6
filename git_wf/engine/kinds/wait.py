"""A wait node pauses for its `duration`."""

from __future__ import annotations

from git_wf.core.clock import Clock
from git_wf.core.outcome import CONFIGURATION, Outcome, failed, succeeded
from git_wf.engine.process import Watch
from git_wf.engine.state import Visit

STEP = 0.2  # seconds between two looks at whether the run is cancelled


def wait(visit: Visit) -> Outcome:
    seconds = visit.node.seconds("duration")
    if seconds is None:
        written = visit.node.text("duration")
        told = f"'{written}' is not a duration" if written else "the node has no duration"
        return failed(told, CONFIGURATION)
    pause(seconds, visit.clock, visit.watch)
    return succeeded()


def pause(seconds: float, clock: Clock, watch: Watch) -> None:
    """Sleeps, and gives way to a cancellation: raises `Interrupted`. It is no stall."""
    rest = seconds
    while rest > 0:
        watch.check_cancelled()
        step = min(STEP, rest)
        before = clock.monotonic()
        clock.sleep(step)
        rest -= max(step, clock.monotonic() - before)
    watch.touch()
