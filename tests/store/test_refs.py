from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from git_wf.core.names import Oid, RefName
from git_wf.errors import Conflict, GitFailed, UserError
from git_wf.store.refs import (
    RefUpdate,
    Transaction,
    in_order,
    list_refs,
    move_refs,
    read_ref,
    remove_packed_lock,
    remove_stale_locks,
)
from git_wf.store.repo import Repo
from tests.conftest import at_work, git

RUN, META = RefName("refs/heads/wf/run/01A"), RefName("refs/wf/meta/01A")
OLD = RefName("refs/wf/old/01A/01B/run")
IDENTITY = {
    "GIT_COMMITTER_NAME": "Rita Recorder",
    "GIT_COMMITTER_EMAIL": "rita@example.com",
    "GIT_COMMITTER_DATE": "@1764504000 +0100",
}


def commits(repo: Repo, count: int) -> list[Oid]:
    tree = repo.line("rev-parse", "HEAD^{tree}")
    return [Oid(repo.line("commit-tree", "-m", str(number), tree)) for number in range(count)]


@pytest.fixture
def head(opened: Repo) -> Oid:
    return Oid(opened.line("rev-parse", "HEAD"))


class TestTransaction:
    def test_makes_moves_and_removes(self, opened: Repo) -> None:
        one, two = commits(opened, 2)
        with Transaction(opened, "wf: checkpoint", IDENTITY) as transaction:
            transaction.apply([])
            transaction.apply([RefUpdate(RUN, one, None), RefUpdate(META, one, None)])
            transaction.apply([RefUpdate(RUN, two, one), RefUpdate(META, two, one)])
            assert list_refs(opened, "refs/heads/wf", "refs/wf") == {RUN: two, META: two}
            transaction.apply([RefUpdate(RUN, None, two), RefUpdate(META, one, two)])
        assert list_refs(opened, "refs/heads/wf", "refs/wf") == {META: one}

    def test_one_process_for_all(self, opened: Repo) -> None:
        one, two = commits(opened, 2)
        with Transaction(opened, "wf: checkpoint", IDENTITY) as transaction:
            transaction.apply([RefUpdate(RUN, one, None)])
            process = transaction._process
            transaction.apply([RefUpdate(RUN, two, one)])
            assert transaction._process is process
            assert process is not None
            assert os.getpgid(process.pid) != os.getpgid(0)

    def test_reflog_says_who_and_why(self, opened: Repo) -> None:
        one, two = commits(opened, 2)
        move_refs(opened, [RefUpdate(META, one, None)], "wf: init", IDENTITY)
        move_refs(opened, [RefUpdate(META, two, one)], "wf: rewind plan@2", IDENTITY)
        shown = git("log", "-g", "--format=%H %gn %ge %gs %gd", "--date=raw", META,
                    cwd=opened.common_dir)  # fmt: skip
        who, when = "Rita Recorder rita@example.com", "wf/meta/01A@{1764504000 +0100}"
        assert shown.splitlines() == [
            f"{two} {who} wf: rewind plan@2 {when}",
            f"{one} {who} wf: init {when}",
        ]

    def test_without_an_identity_in_the_configuration(
        self, opened: Repo, head: Oid, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bare = {key: value for key, value in os.environ.items() if not key.startswith("GIT_C")}
        repo = Repo.find(opened.git_dir, {**bare, "GIT_CONFIG_GLOBAL": os.devnull})
        repo.git("config", "user.useConfigOnly", "true")
        move_refs(repo, [RefUpdate(META, head, None)], "wf: init", IDENTITY)
        assert read_ref(repo, META) == head

    def test_hooks_of_the_user_do_not_fire(self, opened: Repo, head: Oid) -> None:
        hook = opened.common_dir / "hooks" / "reference-transaction"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        move_refs(opened, [RefUpdate(META, head, None)], "wf: init", IDENTITY)
        assert read_ref(opened, META) == head

    @pytest.mark.parametrize("side", ["run", "meta"])
    def test_a_lost_race_moves_neither(self, opened: Repo, side: str) -> None:
        one, two, three = commits(opened, 3)
        with Transaction(opened, "wf: checkpoint", IDENTITY) as transaction:
            transaction.apply([RefUpdate(RUN, one, None), RefUpdate(META, one, None)])
            moved = RUN if side == "run" else META
            git("update-ref", moved, three, cwd=opened.common_dir)
            with pytest.raises(Conflict) as caught:
                transaction.apply([RefUpdate(RUN, two, one), RefUpdate(META, two, one)])
            assert str(caught.value) == (
                f"ref '{moved}' was moved by somebody else: expected {one}, found {three}"
            )
            other = META if side == "run" else RUN
            assert list_refs(opened, RUN, META) == {moved: three, other: one}
            transaction.apply([RefUpdate(moved, two, three), RefUpdate(other, two, one)])
        assert list_refs(opened, RUN, META) == {RUN: two, META: two}

    def test_what_should_not_exist_or_should(self, opened: Repo, head: Oid) -> None:
        with Transaction(opened, "wf: x", IDENTITY) as transaction:
            with pytest.raises(Conflict) as caught:
                transaction.apply([RefUpdate(RUN, None, head)])
            assert str(caught.value) == (
                f"ref '{RUN}' was moved by somebody else: expected {head}, found none"
            )
            transaction.apply([RefUpdate(RUN, head, None)])
            with pytest.raises(Conflict) as caught:
                transaction.apply([RefUpdate(RUN, head, None)])
            assert str(caught.value) == (
                f"ref '{RUN}' was moved by somebody else: expected none, found {head}"
            )

    @pytest.mark.parametrize("branch", ["wf", "wf/run"])
    def test_a_branch_in_the_way(self, opened: Repo, head: Oid, branch: str) -> None:
        opened.git("branch", branch)
        before = list_refs(opened)
        with pytest.raises(UserError) as caught:
            move_refs(
                opened, [RefUpdate(META, head, None), RefUpdate(RUN, head, None)], "wf: x", IDENTITY
            )
        assert str(caught.value) == f"branch '{branch}' is in the way of 'wf/run/01A'"
        assert caught.value.hints == (
            "git config wf.namespace NAME",
            f"git branch -m {branch} NEW-NAME",
        )
        assert list_refs(opened) == before

    def test_a_ref_in_the_way(self, opened: Repo, head: Oid) -> None:
        opened.git("update-ref", f"{META}/below", head)
        with pytest.raises(UserError) as caught:
            move_refs(opened, [RefUpdate(META, head, None)], "wf: x", IDENTITY)
        assert str(caught.value) == f"ref '{META}/below' is in the way of '{META}'"

    def test_a_broken_repository(self, opened: Repo) -> None:
        with pytest.raises(GitFailed) as caught:
            move_refs(
                opened,
                [RefUpdate(META, Oid("1" * len(opened.null_oid)), None)],
                "wf: x",
                IDENTITY,
            )
        assert caught.value.argv[-1] == "-z"
        assert "trying to write ref" in caught.value.stderr
        assert read_ref(opened, META) is None

    def test_a_lock_that_goes_in_time(self, opened: Repo, head: Oid) -> None:
        lock = opened.common_dir / f"{META}.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
        timer = threading.Timer(0.12, lock.unlink)
        timer.start()
        move_refs(opened, [RefUpdate(META, head, None)], "wf: x", IDENTITY)
        timer.join()
        assert read_ref(opened, META) == head

    def test_a_lock_that_is_in_use(self, opened: Repo, head: Oid) -> None:
        lock = opened.common_dir / f"{META}.lock"
        with at_work(lock), pytest.raises(GitFailed) as caught:
            move_refs(opened, [RefUpdate(META, head, None)], "wf: x", IDENTITY)
        assert f"{META}.lock': File exists" in caught.value.stderr

    @pytest.mark.parametrize("name", [f"{META}.lock", "packed-refs.lock"])
    def test_a_lock_that_nobody_holds(self, opened: Repo, head: Oid, name: str) -> None:
        move_refs(opened, [RefUpdate(META, head, None)], "wf: x", IDENTITY)
        lock = opened.common_dir / name
        lock.touch()
        os.utime(lock, (1, 1))
        move_refs(opened, [RefUpdate(META, None, head)], "wf: x", IDENTITY)
        assert not lock.exists()

    def test_what_keeps_comes_first(self, opened: Repo) -> None:
        """In the order of git's renames, so that a crash between two of them loses nothing."""
        one, two = commits(opened, 2)
        updates = [RefUpdate(RUN, None, one), RefUpdate(META, two, one), RefUpdate(OLD, one, None)]
        assert [update.ref for update in in_order(updates)] == [OLD, META, RUN]

    def test_a_process_that_died_is_replaced(self, opened: Repo) -> None:
        one, two = commits(opened, 2)
        with Transaction(opened, "wf: x", IDENTITY) as transaction:
            transaction.apply([RefUpdate(RUN, one, None)])
            assert transaction._process is not None
            transaction._process.kill()
            transaction._process.wait()
            transaction.apply([RefUpdate(RUN, two, one)])
        assert read_ref(opened, RUN) == two

    def test_two_writers_one_wins(self, opened: Repo) -> None:
        start, *tips = commits(opened, 21)
        move_refs(
            opened, [RefUpdate(RUN, start, None), RefUpdate(META, start, None)], "wf: x", IDENTITY
        )
        told: list[str] = []
        barrier = threading.Barrier(2)

        def write(mine: list[Oid]) -> None:
            with Transaction(opened, "wf: x", IDENTITY) as transaction:
                for tip in mine:
                    barrier.wait()
                    old = read_ref(opened, RUN)
                    barrier.wait()
                    try:
                        transaction.apply([RefUpdate(RUN, tip, old), RefUpdate(META, tip, old)])
                        told.append("won")
                    except Conflict:
                        told.append("lost")

        threads = [threading.Thread(target=write, args=(tips[n::2],)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told.count("won") == told.count("lost") == 10
        assert read_ref(opened, RUN) == read_ref(opened, META)

    def test_moving_a_branch_that_is_checked_out_is_the_caller_s_affair(
        self, opened: Repo, head: Oid
    ) -> None:
        (one,) = commits(opened, 1)
        move_refs(opened, [RefUpdate(RefName("refs/heads/main"), one, head)], "wf: x", IDENTITY)
        assert read_ref(opened, "refs/heads/main") == one


class TestReading:
    def test_by_prefix(self, opened: Repo, head: Oid) -> None:
        for ref in (RUN, META, "refs/wf/metadata", "refs/heads/wfx"):
            opened.git("update-ref", ref, head)
        opened.git("pack-refs", "--all")
        assert list_refs(opened, "refs/wf/meta", "refs/heads/wf/") == {RUN: head, META: head}
        assert list(list_refs(opened)) == [
            "refs/heads/main", RUN, "refs/heads/wfx", META, "refs/wf/metadata",
        ]  # fmt: skip
        assert list_refs(opened, "refs/nothing") == {}

    def test_one(self, opened: Repo, head: Oid) -> None:
        assert read_ref(opened, "refs/heads/main") == head
        assert read_ref(opened, "refs/heads") is None
        assert read_ref(opened, "main") is None


class TestStaleLocks:
    def locks(self, repo: Repo, *names: str) -> list[Path]:
        paths = [repo.common_dir / name for name in names]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.utime(path, (1, 1))
        return paths

    def test_only_those_of_the_run_go(self, opened: Repo, head: Oid) -> None:
        mine = self.locks(opened, f"{RUN}.lock", "index.lock")
        other = self.locks(opened, "refs/heads/main.lock", "packed-refs.lock")
        removed = remove_stale_locks(opened, [RUN, META], [mine[1]])
        assert sorted(removed) == sorted(mine)
        assert [path.exists() for path in (*mine, *other)] == [False, False, True, True]
        move_refs(opened, [RefUpdate(RUN, head, None)], "wf: x", IDENTITY)

    def test_none(self, opened: Repo) -> None:
        assert remove_stale_locks(opened, [RUN, META], [opened.git_dir / "index.lock"]) == []

    def test_a_fresh_one_goes_when_it_stands_still(self, opened: Repo) -> None:
        (path,) = self.locks(opened, f"{META}.lock")
        path.write_text("killed just now")
        assert remove_stale_locks(opened, [META]) == [path]

    def test_one_that_is_in_use_stays(self, opened: Repo) -> None:
        (path,) = self.locks(opened, f"{META}.lock")
        path.write_text("at work")
        timer = threading.Timer(0.2, lambda: path.write_text("still at work"))
        timer.start()
        assert remove_stale_locks(opened, [META]) == []
        timer.join()
        assert path.exists()

    def test_those_below_a_directory(self, opened: Repo) -> None:
        below = self.locks(opened, "refs/wf/old/01A/01B/run.lock", "refs/wf/old/01C/01B/run.lock")
        assert remove_stale_locks(opened, ["refs/wf/old/01A"]) == below[:1]

    def test_that_of_all_packed_refs(self, opened: Repo) -> None:
        (path,) = self.locks(opened, "packed-refs.lock")
        assert remove_packed_lock(opened) == [path]
        assert remove_packed_lock(opened) == []

    def test_packed_refs_that_are_being_written(
        self, opened: Repo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The lock stands still while the file beside it grows."""
        monkeypatch.setattr("git_wf.store.refs._PACKED_LOCK_AGE", 0.3)
        (path,) = self.locks(opened, "packed-refs.lock")
        with at_work(opened.common_dir / "packed-refs.new"):
            assert remove_packed_lock(opened) == []
        assert path.exists()
