from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from git_wf.store.files import (
    Lock,
    holder,
    is_locked,
    make_directory,
    remove_tree,
    write_atomic,
)

HOLD = """
import sys
from pathlib import Path
from git_wf.store.files import Lock
lock = Lock(Path(sys.argv[1]), "process 7 on host elsewhere")
print(lock.acquire(0), flush=True)
sys.stdin.readline()
if sys.argv[2] == "release":
    lock.release()
"""
Hold = Callable[[Path, str], "subprocess.Popen[str]"]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Starts another process that holds a lock, until a line comes."""
    started: list[subprocess.Popen[str]] = []
    root = Path(__file__).resolve().parents[2]

    def start(path: Path, ending: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, os.fspath(path), ending],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.fspath(root)},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


class TestWriteAtomic:
    def test_writes_and_replaces(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "state.json"
        write_atomic(path, b"one")
        write_atomic(path, b"two", durable=True)
        assert path.read_bytes() == b"two"
        assert os.listdir(path.parent) == ["state.json"]

    def test_modes(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "state"
        write_atomic(path, b"")
        write_atomic(path.with_name("other"), b"", mode=0o640)
        assert [mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")] == [0o700, 0o700]
        assert [mode_of(path), mode_of(path.with_name("other"))] == [0o600, 0o640]

    def test_a_failed_write_leaves_the_old_file_and_no_other(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        (path / "in-the-way").mkdir(parents=True)
        with pytest.raises(OSError):
            write_atomic(path, b"new")
        assert os.listdir(tmp_path) == ["state"]

    def test_a_file_where_a_directory_must_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            make_directory(tmp_path / "file")


class TestLock:
    def test_held_and_released(self, tmp_path: Path) -> None:
        path = tmp_path / "git-wf" / "run.lock"
        assert not is_locked(path)
        lock = Lock(path, "process 1 on host here")
        assert lock.acquire()
        with lock:
            assert is_locked(path)
            assert holder(path) == "process 1 on host here"
        assert not lock.held
        assert not is_locked(path)
        assert os.listdir(path.parent) == []
        lock.release()

    def test_another_process_excludes(self, tmp_path: Path, hold: Hold) -> None:
        path = tmp_path / "run.lock"
        hold(path, "release")
        assert not Lock(path, "me").acquire()
        assert is_locked(path)
        assert holder(path) == "process 7 on host elsewhere"

    def test_waits_until_the_other_lets_go(self, tmp_path: Path, hold: Hold) -> None:
        path = tmp_path / "run.lock"
        other = hold(path, "release")
        timer = threading.Timer(0.2, lambda: other.communicate("\n"))
        timer.start()
        lock = Lock(path, "me")
        assert lock.acquire(20)
        timer.join()
        assert holder(path) == "me"
        lock.release()
        assert os.listdir(tmp_path) == []

    def test_dies_with_its_owner(self, tmp_path: Path, hold: Hold) -> None:
        path = tmp_path / "run.lock"
        other = hold(path, "die")
        other.kill()
        other.wait()
        assert not is_locked(path)
        lock = Lock(path, "me")
        assert lock.acquire()
        assert holder(path) == "me"
        lock.release()

    def test_a_child_does_not_inherit_it(self, tmp_path: Path) -> None:
        lock = Lock(tmp_path / "run.lock", "me")
        assert lock.acquire()
        with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
            lock.release()
            again = Lock(tmp_path / "run.lock", "me")
            assert again.acquire()
            again.release()
            child.kill()

    def test_probes_never_make_an_acquire_fail(self, tmp_path: Path) -> None:
        path = tmp_path / "run.lock"
        stop = threading.Event()

        def probe() -> None:
            while not stop.is_set():
                is_locked(path)

        threads = [threading.Thread(target=probe) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(50):
                lock = Lock(path, "me")
                assert lock.acquire()
                lock.release()
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_one_owner_at_a_time_though_the_file_comes_and_goes(self, tmp_path: Path) -> None:
        path = tmp_path / "run.lock"
        inside: list[str] = []
        most = []

        def work(name: str) -> None:
            for _ in range(40):
                lock = Lock(path, name)
                assert lock.acquire(60)
                inside.append(name)
                most.append(len(inside))
                inside.remove(name)
                lock.release()

        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(most) == 160
        assert set(most) == {1}
        assert os.listdir(tmp_path) == []

    def test_a_lock_file_that_was_removed_by_hand_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "run.lock"
        old = Lock(path, "old")
        assert old.acquire()
        path.unlink()
        new = Lock(path, "new")
        assert new.acquire()
        old.release()
        assert is_locked(path)
        assert holder(path) == "new"
        new.release()

    def test_an_owner_that_left_no_word(self, tmp_path: Path) -> None:
        assert holder(tmp_path / "run.lock") == "another process"

    def test_a_symlink_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "run.lock").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError):
            Lock(tmp_path / "run.lock", "me").acquire()
        assert not (tmp_path / "elsewhere").exists()

    def test_readers_do_not_import_filelock(self) -> None:
        code = "import sys, git_wf.store.files; print('filelock' in sys.modules)"
        told = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            check=True,
        )
        assert told.stdout == b"False\n"


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of an owner whom modes hold back; for a superuser the rights are dropped."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        if os.geteuid() != 0:
            yield path
            return
        os.chown(path, 65534, 65534)
        os.seteuid(65534)
        try:
            yield path
        finally:
            os.seteuid(0)


class TestRemoveTree:
    def test_nothing_there(self, tmp_path: Path) -> None:
        remove_tree(tmp_path / "absent")

    def test_a_file_and_a_symlink(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "file").touch()
        (tmp_path / "link").symlink_to("kept")
        (tmp_path / "file").touch()
        remove_tree(tmp_path / "link")
        remove_tree(tmp_path / "file")
        assert os.listdir(tmp_path) == ["kept"]
        assert os.listdir(tmp_path / "kept") == ["file"]

    def test_symlinks_below_are_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "file").touch()
        (tmp_path / "tree" / "deep").mkdir(parents=True)
        (tmp_path / "tree" / "deep" / "link").symlink_to(tmp_path / "outside")
        (tmp_path / "tree" / "deep" / "loop").symlink_to("..")
        remove_tree(tmp_path / "tree")
        assert os.listdir(tmp_path) == ["outside"]
        assert os.listdir(tmp_path / "outside") == ["file"]

    def test_read_only_directories(self, unprivileged: Path) -> None:
        tree = unprivileged / "tree"
        (tree / "read-only" / "closed").mkdir(parents=True)
        (tree / "read-only" / "closed" / "file").touch(0o400)
        (tree / "read-only" / os.fsdecode(b"odd \xff\n")).touch()
        (tree / "read-only" / "closed").chmod(0)
        (tree / "read-only").chmod(0o555)
        tree.chmod(0o500)
        remove_tree(tree)
        assert os.listdir(unprivileged) == []
