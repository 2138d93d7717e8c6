"""The run directory: a cache and crash journal outside the object store (formats.md, section 4)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint, Recorded, dump_json, load_json
from git_wf.core.names import trace_name
from git_wf.errors import StateUnreadable
from git_wf.store.files import make_directory, remove_tree, write_atomic

Event = dict[str, Any]


class Journal:
    """Appends events to `events.jsonl` as they happen, and hands them on.

    `run_started` is the first of a walk and `run_finished` the last: what is found out before the
    one waits for it, and the other waits for `end`. What cannot be written, because the disk is
    full, waits for the next event; that is told once.
    """

    def __init__(self, run_dir: Path, listen: Callable[[Event], None]) -> None:
        make_directory(run_dir)
        self.path = run_dir / "events.jsonl"
        self._listen = listen
        self._early: list[Event] | None = []  # None once `run_started` is told
        self._finished: Event | None = None
        self._unwritten = b""
        self._is_behind = False
        self._end_torn_line()
        self._file = self.path.open("ab", buffering=0)  # a crash must find `stage_started` here

    def _end_torn_line(self) -> None:
        """What a killed process wrote half is a line of its own, not the head of ours."""
        with self.path.open("ab+") as stream:
            if stream.tell():
                stream.seek(-1, os.SEEK_END)
                if stream.read() != b"\n":
                    stream.write(b"\n")

    def __call__(self, event: Event) -> None:
        if event["event"] == "run_finished":
            self._finished = event
        elif event["event"] == "run_started":
            self._tell(event)
            early, self._early = self._early or [], None
            for one in early:
                self._tell(one)
        elif self._early is not None:
            self._early.append(event)
        else:
            self._tell(event)

    def end(self) -> None:
        """Tells that the run has finished: nothing follows."""
        if self._finished is not None:
            self._tell(self._finished)
            self._finished = None

    def _tell(self, event: Event) -> None:
        line = json.dumps(event, ensure_ascii=False, allow_nan=False)
        self._unwritten += line.encode("utf-8", "backslashreplace") + b"\n"
        told = self._write()
        self._listen(event)
        if told and not self._is_behind:
            self._is_behind = True
            message = f"write '{self.path.name}': {told}"
            self._tell({**_place(event), "event": "notice", "code": "journal", "message": message})

    def _write(self) -> str:
        """What kept it from being written, if anything."""
        try:
            while self._unwritten:
                written = self._file.write(self._unwritten)
                self._unwritten = self._unwritten[written:]
        except OSError as err:
            return err.strerror or str(err)
        return ""

    def read(self) -> bytes:
        """All that was told, what could not be written too."""
        return self.path.read_bytes() + self._unwritten

    def close(self) -> None:
        if not self._file.closed:
            self.end()
            self._write()
        self._file.close()


def _place(event: Event) -> Event:
    return {key: event[key] for key in ("time", "run_id") if key in event}


def read_events(run_dir: Path) -> Iterator[Event]:
    """The events of a run directory; a torn line is passed over."""
    path = run_dir / "events.jsonl"
    with suppress(OSError), path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def read_disk_checkpoint(path: Path) -> Checkpoint | None:
    """A `checkpoint.json`; None where there is none. Raises `StateUnreadable`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as err:
        raise StateUnreadable(f"read '{path}': {err.strerror}") from err
    return Checkpoint.from_json(load_json(data, str(path)), str(path))


def read_disk_artifacts(run_dir: Path, checkpoint: Checkpoint) -> dict[str, bytes]:
    """The artifacts that a checkpoint refers to. Raises `StateUnreadable` where one is missing."""
    found = {}
    for value in checkpoint.context_values.values():
        if isinstance(value, Mapping) and set(value) == {"$artifact"}:
            key = str(value["$artifact"])
            path = run_dir / "artifacts" / f"{key}.json"
            try:
                found[key] = path.read_bytes()
            except OSError as err:
                raise StateUnreadable(f"read artifact '{path}': {err.strerror}") from err
    return found


class DiskRecorder:
    """Records an in-place run: state on disk, and nothing in git."""

    branches = None  # they would need worktrees of their own

    def __init__(self, run_dir: Path, work_dir: Path) -> None:
        self._run_dir = run_dir
        self.work_dir = work_dir

    def trace_dir(self, node: str, visit: int) -> Path:
        path = self._run_dir / "nodes" / trace_name(node, visit)
        remove_tree(path)
        return make_directory(path)

    def record(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        for key, data in artifacts.items():
            write_atomic(self._run_dir / "artifacts" / f"{key}.json", data)
        write_atomic(self._run_dir / "checkpoint.json", dump_json(checkpoint.to_json()))
        (self._run_dir / "waiting.json").unlink(missing_ok=True)
        return Recorded(None, None)

    def wait(self, waiting: Mapping[str, Any]) -> Recorded:
        write_atomic(self._run_dir / "waiting.json", dump_json({**waiting, "format": 1}))
        return Recorded(None, None)
