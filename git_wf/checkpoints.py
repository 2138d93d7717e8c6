"""Snapshots from Python: undo for programs that let an agent edit a folder.

The names are those of a published interface, so that a script written for it runs after changing
its import. What `git wf snapshot` saves and what this saves are the same snapshots, unless
`storage_dir` names a place of its own.

    service = CheckpointService(workspace_dir=".")
    await service.initialize()
    saved = await service.save("before the refactoring")
    async with service.guard("tidy up"):
        ...  # whatever edits the workspace
    await service.restore(saved.checkpoint.id)

Operations do not raise: a result has `success`, and `error` says why not. `CheckpointService` is
for `asyncio` and never blocks its loop; `SyncCheckpointService` is the same without `await`. Only
what is called is imported.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from git_wf.core.snapshot import FileChange
    from git_wf.ops.snapshot_view import Listed
    from git_wf.ops.workspace import Workspace

NOT_INITIALIZED = "Service not initialized"
NO_CHANGES = "No changes to checkpoint"
_LARGEST = 1 << 20  # bytes of a file whose contents a diff has
_logger = logging.getLogger(__name__)

Handler = Callable[[Any], Any]
Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])
AsyncWrapped = TypeVar("AsyncWrapped", bound=Callable[..., Awaitable[Any]])


class CheckpointEvent(str, Enum):
    """What a handler can be registered for, and what it is handed."""

    INITIALIZED = "initialized"  # {"workspace": path}
    CHECKPOINT_CREATED = "checkpoint_created"  # a `Checkpoint`
    CHECKPOINT_RESTORED = "checkpoint_restored"  # a `Checkpoint`
    ERROR = "error"  # {"error": text}


@dataclass
class Checkpoint:
    """A saved state. The counts are against the state before it."""

    id: str  # the full id, 40 or 64 hexadecimal digits
    short_id: str  # as few of them as name it, nine at least
    message: str
    timestamp: datetime
    files_changed: int = 0
    insertions: int = 0
    deletions: int = 0
    step: int | None = None
    session: str | None = None
    message_count: int | None = None

    def to_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**told, "timestamp": self.timestamp.isoformat()}


@dataclass
class FileDiff:
    """A file in two states. Contents are those of texts up to 1 MiB, else None."""

    path: str
    absolute_path: str
    status: str  # added, modified, deleted, type_changed
    additions: int = 0
    deletions: int = 0
    before_content: str | None = None
    after_content: str | None = None

    def to_dict(self) -> dict[str, Any]:
        names = ("path", "absolute_path", "status", "additions", "deletions")
        return {name: getattr(self, name) for name in names}


@dataclass
class CheckpointDiff:
    """`to_checkpoint` is None where the workspace as it is now was compared."""

    from_checkpoint: str
    to_checkpoint: str | None
    files: list[FileDiff] = field(default_factory=list)
    total_additions: int = 0
    total_deletions: int = 0

    def __post_init__(self) -> None:
        self.total_additions = sum(one.additions for one in self.files)
        self.total_deletions = sum(one.deletions for one in self.files)

    def to_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**told, "files": [one.to_dict() for one in self.files]}


@dataclass
class CheckpointResult:
    success: bool
    checkpoint: Checkpoint | None = None
    error: str | None = None

    @classmethod
    def ok(cls, checkpoint: Checkpoint) -> CheckpointResult:
        return cls(success=True, checkpoint=checkpoint)

    @classmethod
    def fail(cls, error: str) -> CheckpointResult:
        return cls(success=False, error=error)


class SyncCheckpointService:
    """Saves a workspace and gives it back, each call from beginning to end.

    `workspace_dir` is a folder in a worktree, which is then saved as a whole, or a folder outside
    of any repository. `storage_dir` keeps the snapshots of just that folder in a private repository
    there; without it they are where `git wf snapshot` has them. With `auto_checkpoint` off, `guard`
    and `guarded` save nothing. `max_checkpoints` bounds what is listed; nothing is deleted.
    """

    def __init__(
        self,
        workspace_dir: str | os.PathLike[str],
        storage_dir: str | os.PathLike[str] | None = None,
        enabled: bool = True,
        auto_checkpoint: bool = True,
        max_checkpoints: int = 100,
    ) -> None:
        self.workspace_dir = _absolute(workspace_dir)
        self.storage_dir = None if storage_dir is None else _absolute(storage_dir)
        self.enabled = enabled
        self.auto_checkpoint = auto_checkpoint
        self.max_checkpoints = max_checkpoints
        self.is_initialized = False
        self._handlers: dict[CheckpointEvent, list[Handler]] = {one: [] for one in CheckpointEvent}

    def on(self, event: CheckpointEvent, handler: Handler) -> None:
        """Calls `handler` at each such event. What it raises is logged, and changes nothing."""
        self._handlers[event].append(handler)

    def _emit(self, event: CheckpointEvent, data: Any) -> None:
        for handler in self._handlers[event]:
            with _handling(event):
                handler(data)

    def initialize(self) -> bool:
        """Whether the workspace can be saved; why not is logged."""
        if not self.enabled:
            return False
        try:
            with self._opened():
                self.is_initialized = True
        except _errors() as err:
            _logger.error("%s", _told(err))
            self._emit(CheckpointEvent.ERROR, {"error": _told(err)})
            return False
        self._emit(CheckpointEvent.INITIALIZED, {"workspace": self.workspace_dir})
        return True

    def save(
        self,
        message: str,
        allow_empty: bool = False,
        step: int | None = None,
        session: str | None = None,
        message_count: int | None = None,
    ) -> CheckpointResult:
        """Saves the workspace. Where nothing has changed, that is an error, or `allow_empty`."""
        from git_wf.ops.snapshot import Asked, save

        asked = Asked(message, session, step, message_count, allow_empty=allow_empty)

        def saved(workspace: Workspace) -> Checkpoint | str:
            done = save(workspace, asked)
            if not done.is_new:
                return NO_CHANGES
            return _checkpoint(_described(workspace, done.snapshot.id))

        return self._do(saved, CheckpointEvent.CHECKPOINT_CREATED)

    def restore(
        self, checkpoint_id: str | None = None, step: int | None = None
    ) -> CheckpointResult:
        """Gives the workspace what a checkpoint holds; what there is now is saved first."""
        from git_wf.ops.snapshot import restore

        if (checkpoint_id is None) == (step is None):
            return self._failed("give checkpoint_id or step, one of them")

        def restored(workspace: Workspace) -> Checkpoint:
            done = restore(workspace, checkpoint_id, step=step)
            return _checkpoint(_described(workspace, done.snapshot.id))

        return self._do(restored, CheckpointEvent.CHECKPOINT_RESTORED)

    def rewind(self, steps: int = 1) -> CheckpointResult:
        """Goes back so many steps; edits since the last checkpoint are one."""
        from git_wf.ops.snapshot import rewind

        if steps < 1:
            return self._failed(f"cannot go back {steps} steps")

        def rewound(workspace: Workspace) -> Checkpoint:
            done = rewind(workspace, steps)
            return _checkpoint(_described(workspace, done.snapshot.id))

        return self._do(rewound, CheckpointEvent.CHECKPOINT_RESTORED)

    def diff(self, from_id: str | None = None, to_id: str | None = None) -> CheckpointDiff:
        """Two checkpoints compared; by default the last one with the workspace as it is now.

        Without files, and with empty ids, where they cannot be compared: why is logged.
        """
        from git_wf.ops.snapshot_view import compare, file_contents

        nothing = CheckpointDiff("", "")
        if not self.is_initialized:
            return nothing
        try:
            with self._opened() as workspace:
                references = [one for one in (from_id or "last", to_id) if one is not None]
                found = compare(workspace, references if from_id or to_id else [])
                texts = file_contents(workspace, found, _LARGEST)
        except _errors() as err:
            _logger.error("%s", _told(err))
            self._emit(CheckpointEvent.ERROR, {"error": _told(err)})
            return nothing
        files = [_file_diff(workspace.top, one, texts) for one in found.files]
        return CheckpointDiff(found.first, found.second, files)

    def list_checkpoints(self, limit: int = 50) -> list[Checkpoint]:
        """The newest first; those that a restore made by itself are not among them."""
        return self._listed()[: max(0, min(limit, self.max_checkpoints))]

    def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        """By `last`, an id, or a unique begin of one."""
        from git_wf.ops.snapshot_view import show_snapshot

        if not self.is_initialized:
            return None
        try:
            with self._opened() as workspace:
                return _checkpoint(show_snapshot(workspace, checkpoint_id).listed)
        except _errors():
            return None

    def get_checkpoint_by_step(self, step: int) -> Checkpoint | None:
        """The newest one that was saved with `step`."""
        return next((one for one in self._listed() if one.step == step), None)

    def delete_all(self) -> bool:
        """Deletes every checkpoint of the workspace. Its files stay as they are."""
        from git_wf.ops.snapshot import chosen_snapshots, delete

        try:
            with self._opened() as workspace:
                delete(workspace, [one.id for one in chosen_snapshots(workspace, ())])
        except _errors() as err:
            _logger.error("%s", _told(err))
            return False
        self.is_initialized = False
        return True

    def cleanup(self) -> None:
        """Ends the use of the service; checkpoints stay."""
        self.is_initialized = False

    @contextmanager
    def guard(self, label: str) -> Iterator[CheckpointResult | None]:
        """Saves before what is inside, if `auto_checkpoint` is on; None where it did not."""
        yield self._saved_before(label)

    def guarded(self, label: str) -> Callable[[Wrapped], Wrapped]:
        """A decorator: `guard` around every call."""

        def decorate(function: Wrapped) -> Wrapped:
            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                self._saved_before(label)
                return function(*args, **kwargs)

            return call  # type: ignore[return-value]

        return decorate

    def _saved_before(self, label: str) -> CheckpointResult | None:
        if not (self.enabled and self.auto_checkpoint):
            return None
        if not self.is_initialized:
            self.initialize()
        return self.save(label)

    @contextmanager
    def _opened(self) -> Iterator[Workspace]:
        from git_wf.ops.host import Host
        from git_wf.ops.workspace import open_workspace

        storage = None if self.storage_dir is None else Path(self.storage_dir)
        workspace = open_workspace(Host.system(), Path(self.workspace_dir), storage)
        try:
            yield workspace
        finally:
            workspace.close()

    def _do(
        self, operation: Callable[[Workspace], Checkpoint | str], event: CheckpointEvent
    ) -> CheckpointResult:
        """`operation` gives a checkpoint, or why there is none."""
        if not self.is_initialized:
            return CheckpointResult.fail(NOT_INITIALIZED)
        try:
            with self._opened() as workspace:
                made = operation(workspace)
        except _errors() as err:
            return self._failed(_told(err))
        if isinstance(made, str):
            return CheckpointResult.fail(made)
        self._emit(event, made)
        return CheckpointResult.ok(made)

    def _failed(self, error: str) -> CheckpointResult:
        self._emit(CheckpointEvent.ERROR, {"error": error})
        return CheckpointResult.fail(error)

    def _listed(self) -> list[Checkpoint]:
        from git_wf.ops.snapshot_view import list_snapshots

        if not self.is_initialized:
            return []
        try:
            with self._opened() as workspace:
                listed = list_snapshots(workspace)
        except _errors() as err:
            _logger.error("%s", _told(err))
            return []
        return [_checkpoint(one) for one in listed if one.snapshot.is_counted]


class CheckpointService:
    """The same for `asyncio`: each call is done in a thread, and its events come in the loop.

    Handlers may be coroutine functions.
    """

    def __init__(
        self,
        workspace_dir: str | os.PathLike[str],
        storage_dir: str | os.PathLike[str] | None = None,
        enabled: bool = True,
        auto_checkpoint: bool = True,
        max_checkpoints: int = 100,
    ) -> None:
        self._inner = SyncCheckpointService(
            workspace_dir, storage_dir, enabled, auto_checkpoint, max_checkpoints
        )
        self._handlers: dict[CheckpointEvent, list[Handler]] = {one: [] for one in CheckpointEvent}
        self._told: list[tuple[CheckpointEvent, Any]] = []
        for event in CheckpointEvent:
            self._inner.on(event, functools.partial(self._hear, event))

    @property
    def workspace_dir(self) -> str:
        return self._inner.workspace_dir

    @property
    def storage_dir(self) -> str | None:
        return self._inner.storage_dir

    @property
    def enabled(self) -> bool:
        return self._inner.enabled

    @property
    def auto_checkpoint(self) -> bool:
        return self._inner.auto_checkpoint

    @property
    def max_checkpoints(self) -> int:
        return self._inner.max_checkpoints

    @property
    def is_initialized(self) -> bool:
        return self._inner.is_initialized

    def on(self, event: CheckpointEvent, handler: Handler) -> None:
        """Calls or awaits `handler` at each such event. What it raises is logged."""
        self._handlers[event].append(handler)

    def _hear(self, event: CheckpointEvent, data: Any) -> None:
        self._told.append((event, data))

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        import asyncio

        done = await asyncio.to_thread(function, *args, **kwargs)
        told, self._told = self._told, []
        for event, data in told:
            for handler in self._handlers[event]:
                with _handling(event):
                    answer = handler(data)
                    if isinstance(answer, Awaitable):
                        await answer
        return done

    async def initialize(self) -> bool:
        return bool(await self._call(self._inner.initialize))

    async def save(
        self,
        message: str,
        allow_empty: bool = False,
        step: int | None = None,
        session: str | None = None,
        message_count: int | None = None,
    ) -> CheckpointResult:
        made: CheckpointResult = await self._call(
            self._inner.save, message, allow_empty, step, session, message_count
        )
        return made

    async def restore(
        self, checkpoint_id: str | None = None, step: int | None = None
    ) -> CheckpointResult:
        made: CheckpointResult = await self._call(self._inner.restore, checkpoint_id, step)
        return made

    async def rewind(self, steps: int = 1) -> CheckpointResult:
        made: CheckpointResult = await self._call(self._inner.rewind, steps)
        return made

    async def diff(self, from_id: str | None = None, to_id: str | None = None) -> CheckpointDiff:
        found: CheckpointDiff = await self._call(self._inner.diff, from_id, to_id)
        return found

    async def list_checkpoints(self, limit: int = 50) -> list[Checkpoint]:
        found: list[Checkpoint] = await self._call(self._inner.list_checkpoints, limit)
        return found

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        found: Checkpoint | None = await self._call(self._inner.get_checkpoint, checkpoint_id)
        return found

    async def get_checkpoint_by_step(self, step: int) -> Checkpoint | None:
        found: Checkpoint | None = await self._call(self._inner.get_checkpoint_by_step, step)
        return found

    async def delete_all(self) -> bool:
        return bool(await self._call(self._inner.delete_all))

    async def cleanup(self) -> None:
        self._inner.cleanup()

    @asynccontextmanager
    async def guard(self, label: str) -> AsyncIterator[CheckpointResult | None]:
        """Saves before what is inside, if `auto_checkpoint` is on; None where it did not."""
        yield await self._call(self._inner._saved_before, label)

    def guarded(self, label: str) -> Callable[[AsyncWrapped], AsyncWrapped]:
        """A decorator of coroutine functions: `guard` around every call."""

        def decorate(function: AsyncWrapped) -> AsyncWrapped:
            @functools.wraps(function)
            async def call(*args: Any, **kwargs: Any) -> Any:
                async with self.guard(label):
                    return await function(*args, **kwargs)

            return call  # type: ignore[return-value]

        return decorate


@contextmanager
def _handling(event: CheckpointEvent) -> Iterator[None]:
    """What a handler raises is its own matter: the operation is done."""
    try:
        yield
    except Exception:
        _logger.warning("handler of %s", event.value, exc_info=True)


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def _errors() -> tuple[type[Exception], ...]:
    from git_wf.errors import WfError

    return WfError, OSError


def _told(err: BaseException) -> str:
    return str(getattr(err, "message", "") or err)


def _described(workspace: Workspace, full: str) -> Listed:
    from git_wf.ops.snapshot_view import show_snapshot

    return show_snapshot(workspace, full).listed


def _checkpoint(listed: Listed) -> Checkpoint:
    record = listed.snapshot.record
    return Checkpoint(
        id=listed.snapshot.id,
        short_id=listed.short,
        message=record.message,
        timestamp=datetime.fromisoformat(record.created_at.replace("Z", "+00:00")),
        files_changed=listed.files_changed,
        insertions=listed.insertions,
        deletions=listed.deletions,
        step=record.step,
        session=record.session,
        message_count=record.message_count,
    )


def _file_diff(
    top: Path, one: FileChange, texts: dict[str, tuple[str | None, str | None]]
) -> FileDiff:
    before, after = texts.get(one.path, (None, None))
    return FileDiff(
        path=one.path,
        absolute_path=os.path.join(top, one.path),
        status=one.word,
        additions=one.insertions or 0,
        deletions=one.deletions or 0,
        before_content=before,
        after_content=after,
    )
