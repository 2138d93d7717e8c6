from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from git_wf.core.names import Oid
from git_wf.errors import StateUnreadable
from git_wf.store.objects import (
    CHUNK,
    Commit,
    Entry,
    Info,
    ObjectReader,
    decode_commit,
    decode_tree,
    encode_commit,
    encode_tree,
    hash_object,
)
from git_wf.store.repo import Repo
from tests.conftest import git

ADA = "Ada Author <ada@example.com> 1764504000 +0100"
TREE = Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904")


def raw(repo: Repo, kind: str, expression: str) -> bytes:
    return repo.git("cat-file", kind, expression)


def store(repo: Repo, kind: str, data: bytes) -> Oid:
    return Oid(repo.git("hash-object", "-w", "-t", kind, "--stdin", stdin=data).decode().strip())


@pytest.mark.parametrize("data", [b"", b"hello\n", b"\0\xff" * 1000])
def test_ids_are_git_s(opened: Repo, data: bytes) -> None:
    assert hash_object("blob", data, opened.object_format) == store(opened, "blob", data)


class TestTrees:
    def test_order_is_git_s(self, opened: Repo) -> None:
        blob, tree = store(opened, "blob", b"x"), store(opened, "tree", b"")
        entries = {
            b"a": Entry("40000", tree),
            b"a.b": Entry("100644", blob),
            b"a-b": Entry("100755", blob),
            b"a0": Entry("120000", blob),
            b"sub\xff\n": Entry("160000", Oid("1" * len(blob))),
        }
        listed = b"".join(
            b"%b %b %b\t%b\0" % (e.mode.encode(), e.kind.encode(), e.oid.encode(), name)
            for name, e in entries.items()
        )
        oid = opened.git("mktree", "-z", stdin=listed).decode().strip()
        data = encode_tree(entries, opened.object_format)
        assert hash_object("tree", data, opened.object_format) == oid
        assert list(decode_tree(data, opened.object_format)) == [
            b"a-b", b"a.b", b"a", b"a0", b"sub\xff\n",
        ]  # fmt: skip
        assert decode_tree(data, opened.object_format) == entries

    def test_a_mode_may_come_with_its_zero(self) -> None:
        one, other = Entry("040000", TREE), Entry("40000", TREE)
        assert encode_tree({b"d": one}, "sha1") == encode_tree({b"d": other}, "sha1")

    def test_empty(self) -> None:
        assert encode_tree({}, "sha1") == b""
        assert decode_tree(b"", "sha1") == {}

    @pytest.mark.parametrize("data", [b"100644 a", b"100644 a\0short", b"\xff\0" + b"1" * 20])
    def test_what_is_no_tree(self, data: bytes) -> None:
        with pytest.raises(StateUnreadable):
            decode_tree(data, "sha1")


class TestCommits:
    def test_round_trip_of_a_real_one(self, opened: Repo) -> None:
        data = raw(opened, "commit", "HEAD")
        commit = decode_commit(data)
        assert commit.message == "first\n"
        assert commit.parents == ()
        assert commit.author.startswith("Ada Author <ada@example.com> ")
        assert commit.committer.startswith("Carl Committer <carl@example.com> ")
        assert encode_commit(commit) == data

    def test_headers_of_several_lines_are_kept(self) -> None:
        extra = (("encoding", "latin-1"), ("gpgsig", "-----BEGIN\n\nabc\n-----END"))
        commit = Commit(TREE, (Oid("1" * 40), Oid("2" * 40)), ADA, ADA, "x\n\ny", extra)
        data = encode_commit(commit)
        assert decode_commit(data) == commit
        assert b"\ngpgsig -----BEGIN\n \n abc\n -----END\n\nx\n\ny" in data

    def test_git_reads_ours(self, opened: Repo) -> None:
        head = Oid(git("rev-parse", "HEAD", cwd=opened.common_dir))
        tree = Oid(git("rev-parse", "HEAD^{tree}", cwd=opened.common_dir))
        message = "übung \udcff\n\nbody\n"
        oid = store(opened, "commit", encode_commit(Commit(tree, (head,), ADA, ADA, message)))
        assert git("log", "-1", "--format=%T %P %an %at %cI", oid, cwd=opened.common_dir) == (
            f"{tree} {head} Ada Author 1764504000 2025-11-30T13:00:00+01:00"
        )
        assert raw(opened, "commit", oid).endswith(b"\n\n\xc3\xbcbung \xff\n\nbody\n")

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"tree x\n\nmessage",
            b"parent x\nauthor a\ncommitter c\n\n",
            b"tree x\ncommitter c\n\n",
        ],
    )
    def test_what_is_no_commit(self, data: bytes) -> None:
        with pytest.raises(StateUnreadable):
            decode_commit(data)

    @pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\n\n\n"])
    def test_messages_keep_their_ends(self, ending: str) -> None:
        commit = Commit(TREE, (), ADA, ADA, f"subject{ending}")
        assert decode_commit(encode_commit(commit)) == commit


class TestReader:
    def test_reads_what_git_resolves(self, opened: Repo) -> None:
        with ObjectReader(opened) as reader:
            assert reader.read("HEAD:README") == ("blob", b"hello\n")
            assert reader.read_blob("HEAD:src/a") == b"a\n"
            assert reader.read_commit("HEAD").message == "first\n"
            assert list(reader.read_tree("HEAD:")) == [b"README", b"src"]
            oid = hash_object("blob", b"a\n", opened.object_format)
            assert reader.find("main:src/a") == Info(oid, "blob", 2)

    def test_what_is_missing(self, opened: Repo) -> None:
        with ObjectReader(opened) as reader:
            for name in ("HEAD:nothing here", "nothing", "", "f" * 40, "a blob 3", "--help"):
                assert reader.find(name) is None
                with pytest.raises(StateUnreadable) as caught:
                    reader.read(name)
                assert str(caught.value) == f"no object '{name}'"
            assert reader.read_blob("HEAD:README") == b"hello\n"

    def test_another_kind(self, opened: Repo) -> None:
        with ObjectReader(opened) as reader, pytest.raises(StateUnreadable) as caught:
            reader.read_blob("HEAD:src")
        assert str(caught.value) == "object 'HEAD:src' is a tree, not a blob"

    @pytest.mark.parametrize("name", ["HEAD\nHEAD", "HEAD:README\n", "a\0b"])
    def test_names_of_several_lines_are_refused(self, opened: Repo, name: str) -> None:
        with ObjectReader(opened) as reader:
            with pytest.raises(StateUnreadable):
                reader.read(name)
            assert reader.read_blob("HEAD:README") == b"hello\n"

    def test_names_with_spaces_and_odd_bytes(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        name = os.fsdecode(b"a  b\xff")
        (opened.work_tree / name).write_text("odd")
        git("add", "-A", cwd=opened.work_tree)
        with ObjectReader(opened) as reader:
            assert reader.read_blob(f":{name}") == b"odd"

    @pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7])
    def test_any_size(self, opened: Repo, size: int) -> None:
        data = os.urandom(size)
        oid = store(opened, "blob", data)
        parts: list[bytes] = []
        with ObjectReader(opened) as reader:
            assert reader.stream(oid, parts.append) == Info(oid, "blob", size)
            assert reader.read_blob("HEAD:README") == b"hello\n"
        assert b"".join(parts) == data
        assert max(len(part) for part in parts) <= CHUNK

    def test_sees_new_objects_and_repacked_ones(self, opened: Repo) -> None:
        with ObjectReader(opened) as reader:
            assert reader.read_blob("HEAD:README") == b"hello\n"
            oid = store(opened, "blob", b"new")
            assert reader.read_blob(oid) == b"new"
            opened.git("gc", "-q")
            assert reader.read_blob("HEAD:src/a") == b"a\n"

    def test_starts_again_after_its_process_died(self, opened: Repo) -> None:
        with ObjectReader(opened) as reader:
            reader.read("HEAD")
            assert reader._process is not None
            reader._process.kill()
            reader._process.wait()
            assert reader.read_blob("HEAD:README") == b"hello\n"

    def test_a_taker_that_fails_does_not_confuse_the_next_answer(self, opened: Repo) -> None:
        oid = store(opened, "blob", os.urandom(3 * CHUNK))

        def refuse(_: bytes) -> None:
            raise OSError("disk full")

        with ObjectReader(opened) as reader:
            with pytest.raises(OSError, match="disk full"):
                reader.stream(oid, refuse)
            assert reader.read_blob("HEAD:README") == b"hello\n"

    def test_a_damaged_object(self, opened: Repo) -> None:
        oid = store(opened, "blob", os.urandom(100_000))
        path = opened.objects_dir / oid[:2] / oid[2:]
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:50_000])
        with ObjectReader(opened) as reader:
            with pytest.raises(StateUnreadable):
                reader.read(oid)
            assert reader.read_blob("HEAD:README") == b"hello\n"

    def test_threads_share_one(self, opened: Repo) -> None:
        found: list[bytes] = []
        with ObjectReader(opened) as reader:

            def read() -> None:
                found.extend(reader.read_blob("HEAD:README") for _ in range(50))

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert found == [b"hello\n"] * 200

    def test_an_interrupt_of_the_terminal_does_not_reach_it(self, opened: Repo) -> None:
        with ObjectReader(opened) as reader:
            reader.read("HEAD")
            assert reader._process is not None
            assert os.getpgid(reader._process.pid) != os.getpgid(0)

    def test_it_costs_nothing_until_it_is_asked(self, opened: Repo) -> None:
        reader = ObjectReader(opened)
        assert reader._process is None
        reader.close()


def test_reading_imports_no_gitpython() -> None:
    code = "import sys, git_wf.store.objects; print('git' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True)
    assert told.stdout == b"False\n"


def test_many_at_once(opened: Repo) -> None:
    """What is missing or damaged is left out; the others come all the same."""
    contents = [b"", b"one\n", b"\0two\n\n" * 1000]
    oids = [store(opened, "blob", data) for data in contents]
    missing = Oid("1" * 40)
    whole = {oid: ("blob", data) for oid, data in zip(oids, contents, strict=True)}
    with ObjectReader(opened) as reader:
        assert reader.read_many([*oids, missing, oids[0]]) == whole
        assert reader.read_many([]) == {}
        path = opened.objects_dir / oids[1][:2] / oids[1][2:]
        path.unlink()
        path.write_bytes(b"damaged")
        assert reader.read_many(oids) == {oid: whole[oid] for oid in (oids[0], oids[2])}
