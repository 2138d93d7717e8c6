"""The Python interface for snapshots, under scripts written against the published one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from git_wf.checkpoints import (
    CheckpointEvent,
    CheckpointService,
    FileDiff,
    SyncCheckpointService,
)
from tests.conftest import git
from tests.tree import ROOT

WHERE = ["repository", "folder", "storage"]


@pytest.fixture(params=WHERE)
def service(
    request: pytest.FixtureRequest, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SyncCheckpointService:
    """Initialized; of a repository, a folder outside of one, or with a place of its own."""
    place = repo
    if request.param == "folder":
        place = tmp_path / "folder"
        place.mkdir()
        (place / "README").write_text("hello\n")
    monkeypatch.chdir(place)
    storage = tmp_path / "storage" if request.param == "storage" else None
    made = SyncCheckpointService(".", storage)
    assert made.initialize()
    return made


def place_of(service: SyncCheckpointService) -> Path:
    return Path(service.workspace_dir)


def test_save_and_restore(service: SyncCheckpointService) -> None:
    place = place_of(service)
    (place / "a").write_text("1\n2\n")
    first = service.save("one | two", step=3, session="S", message_count=7)
    assert first.success and first.error is None and first.checkpoint is not None
    made = first.checkpoint
    assert (made.message, made.step, made.session, made.message_count) == ("one | two", 3, "S", 7)
    assert made.id.startswith(made.short_id) and len(made.id) == 40
    assert made.timestamp.tzinfo is not None
    assert service.save("again").error == "No changes to checkpoint"
    (place / "a").write_text("1\n")
    (place / "b").write_text("new\n")
    second = service.save("two").checkpoint
    assert second is not None
    assert (second.files_changed, second.insertions, second.deletions) == (2, 1, 1)
    assert second.to_dict()["files_changed"] == 2
    (place / "a").write_text("edited\n")
    done = service.restore(made.id)
    assert done.success and done.checkpoint == made
    assert (place / "a").read_text() == "1\n2\n" and not (place / "b").exists()
    assert [one.message for one in service.list_checkpoints()] == ["two", "one | two"]
    assert service.restore(step=3).success
    assert service.get_checkpoint_by_step(3) == made
    assert service.get_checkpoint_by_step(4) is None
    assert service.get_checkpoint(made.id[:10]) == made
    assert service.get_checkpoint("deadbeef") is None


def test_both_or_neither_is_an_error(service: SyncCheckpointService) -> None:
    made = service.save("x", allow_empty=True).checkpoint
    assert made is not None
    for given in ({}, {"checkpoint_id": made.id, "step": 1}):
        result = service.restore(**given)  # type: ignore[arg-type]
        assert (result.success, result.error) == (False, "give checkpoint_id or step, one of them")


def test_rewind(service: SyncCheckpointService) -> None:
    place = place_of(service)
    for text in ("1", "2"):
        (place / "a").write_text(text)
        assert service.save(text).success
    (place / "a").write_text("3")
    assert service.rewind().checkpoint is not None
    assert (place / "a").read_text() == "2"
    assert service.rewind(1).success
    assert (place / "a").read_text() == "1"
    assert not service.rewind(0).success
    assert service.rewind(9).error == "cannot go back 9: there is no step"


def test_diff(service: SyncCheckpointService) -> None:
    place = place_of(service)
    (place / "a").write_text("1\n")
    (place / "gone").write_text("gone\n")
    first = service.save("one").checkpoint
    assert first is not None
    (place / "a").write_text("1\n2\n")
    (place / "gone").unlink()
    (place / "raw").write_bytes(b"\0\1")
    found = service.diff()
    assert (found.from_checkpoint, found.to_checkpoint) == (first.short_id, None)
    assert found.files == [
        FileDiff("a", str(place / "a"), "modified", 1, 0, "1\n", "1\n2\n"),
        FileDiff("gone", str(place / "gone"), "deleted", 0, 1, "gone\n", None),
        FileDiff("raw", str(place / "raw"), "added", 0, 0, None, None),
    ]
    assert (found.total_additions, found.total_deletions) == (1, 1)
    second = service.save("two").checkpoint
    assert second is not None
    between = service.diff(first.id, second.short_id)
    assert [one.status for one in between.files] == ["modified", "deleted", "added"]
    assert between.files[0].after_content == "1\n2\n"
    assert between.to_dict()["to_checkpoint"] == second.short_id
    assert service.diff("deadbeef").files == []


def test_listing_is_bounded_and_nothing_deleted(repo: Path) -> None:
    service = SyncCheckpointService(repo, max_checkpoints=2)
    service.initialize()
    for text in "abc":
        (repo / "a").write_text(text)
        service.save(text)
    assert [one.message for one in service.list_checkpoints()] == ["c", "b"]
    assert [one.message for one in service.list_checkpoints(limit=1)] == ["c"]
    assert [one.message for one in SyncCheckpointService(repo).list_checkpoints()] == []
    other = SyncCheckpointService(repo)
    other.initialize()
    assert len(other.list_checkpoints()) == 3


def test_what_is_not_initialized_or_not_enabled(repo: Path, tmp_path: Path) -> None:
    service = SyncCheckpointService(repo)
    assert service.save("x").error == service.restore("last").error == "Service not initialized"
    assert (service.diff().files, service.list_checkpoints()) == ([], [])
    assert not SyncCheckpointService(repo, enabled=False).initialize()
    assert not SyncCheckpointService(tmp_path / "none").initialize()
    assert not SyncCheckpointService("/").initialize()
    assert not SyncCheckpointService(repo, repo / "inside").initialize()
    assert not list(repo.glob("inside*"))


def test_delete_all_and_cleanup(service: SyncCheckpointService) -> None:
    place = place_of(service)
    (place / "a").write_text("1\n")
    service.save("one")
    assert service.delete_all() and not service.is_initialized
    assert service.initialize() and service.list_checkpoints() == []
    assert (place / "a").read_text() == "1\n"
    service.cleanup()
    assert not service.is_initialized


def test_events(service: SyncCheckpointService) -> None:
    heard: list[tuple[str, object]] = []
    for event in CheckpointEvent:
        service.on(event, lambda data, event=event: heard.append((event.value, data)))
    service.on(CheckpointEvent.CHECKPOINT_CREATED, lambda data: 1 // 0)  # it changes nothing
    made = service.save("x", allow_empty=True).checkpoint
    service.restore("last")
    service.restore("deadbeef")
    assert heard == [
        ("checkpoint_created", made),
        ("checkpoint_restored", made),
        ("error", {"error": "no snapshot 'deadbeef'"}),
    ]


@pytest.mark.parametrize("on", [True, False])
def test_guards(repo: Path, on: bool) -> None:
    service = SyncCheckpointService(repo, auto_checkpoint=on)

    @service.guarded("before work")
    def work(text: str) -> str:
        (repo / "a").write_text(text)
        return text

    (repo / "a").write_text("0")
    assert work("1") == "1"
    with service.guard("before more") as saved:
        (repo / "a").write_text("2")
    assert (saved is None) is not on
    service.initialize()
    told = [one.message for one in service.list_checkpoints()]
    assert told == (["before more", "before work"] if on else [])
    if on:
        service.restore(step=None, checkpoint_id="@1")
        assert (repo / "a").read_text() == "0"


def test_the_same_snapshots_as_on_the_command_line(repo: Path) -> None:
    service = SyncCheckpointService(repo / "..", None)
    service = SyncCheckpointService(repo)
    service.initialize()
    (repo / "a").write_text("1\n")
    made = service.save("mine").checkpoint
    assert made is not None
    refs = git("for-each-ref", "--format=%(objectname)", "refs/wf/snapshots", cwd=repo)
    assert refs.splitlines() == [made.id]


# asyncio.


def test_a_script_of_the_published_interface(tmp_path: Path) -> None:
    """As its documentation has it, but for the import."""
    workspace = tmp_path / "project"
    workspace.mkdir()
    (workspace / "main.py").write_text("print('one')\n")

    async def script() -> list[str]:
        service = CheckpointService(
            workspace_dir=str(workspace), storage_dir=str(tmp_path / "checkpoints"),
            enabled=True, auto_checkpoint=True, max_checkpoints=100,
        )  # fmt: skip
        told = []
        service.on(CheckpointEvent.CHECKPOINT_CREATED, lambda one: told.append(one.message))

        async def late(one: object) -> None:
            told.append("restored")

        service.on(CheckpointEvent.CHECKPOINT_RESTORED, late)
        assert await service.initialize()
        result = await service.save("Before refactoring")
        assert result.success and result.checkpoint is not None
        (workspace / "main.py").write_text("print('two')\n")
        diff = await service.diff()
        assert [one.path for one in diff.files] == ["main.py"]
        await service.save("After refactoring")
        assert (await service.restore(result.checkpoint.id)).success
        checkpoints = await service.list_checkpoints(limit=10)
        assert (await service.get_checkpoint(checkpoints[0].short_id)) == checkpoints[0]
        assert await service.get_checkpoint_by_step(1) is None
        assert (await service.rewind(1)).success is False
        await service.cleanup()
        assert await service.delete_all()
        return told

    assert asyncio.run(script()) == ["Before refactoring", "After refactoring", "restored"]
    assert (workspace / "main.py").read_text() == "print('one')\n"


def test_the_loop_is_not_blocked(repo: Path) -> None:
    service, names = CheckpointService(repo), []
    service._inner.on(
        CheckpointEvent.CHECKPOINT_CREATED, lambda _: names.append(threading.current_thread().name)
    )
    service.on(
        CheckpointEvent.CHECKPOINT_CREATED, lambda _: names.append(threading.current_thread().name)
    )

    @service.guarded("decorated")
    async def work() -> int:
        (repo / "a").write_text("2")
        return 5

    async def script() -> None:
        async with service.guard("x") as saved:
            assert saved is not None and saved.success
        assert await work() == 5
        assert await work() == 5

    asyncio.run(script())
    assert len(names) == 4
    assert names[0] != names[1] == threading.main_thread().name


def test_imports_are_lazy() -> None:
    heavy = ["asyncio", "git_wf.ops.snapshot", "subprocess", "msgspec", "rich"]
    code = f"import git_wf.checkpoints, sys; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path}; {code}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == b"[]\n"
