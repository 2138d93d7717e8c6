from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from git_wf.core.names import Oid, RefName
from git_wf.errors import GitFailed
from git_wf.store.objects import Commit, Entry, ObjectReader, encode_commit, encode_tree
from git_wf.store.packs import (
    KEEP_WORD,
    KeptPack,
    Pack,
    PackEntry,
    Quarantine,
    SmallPacks,
    consolidate,
    encode_index,
    index_oids,
    join,
    quarantine,
    release_stale_keeps,
)
from git_wf.store.repo import Repo
from tests.conftest import git

ADA = "Ada Author <ada@example.com> 1764504000 +0100"
REF = "refs/heads/kept"


def written(pack: Pack) -> KeptPack:
    kept = pack.write()
    assert kept is not None
    return kept


def pack_files(repo: Repo) -> list[str]:
    """Suffixes of what is in the pack directory."""
    return sorted(path.suffix for path in (repo.objects_dir / "pack").iterdir())


def scratch(repo: Repo) -> list[str]:
    return os.listdir(repo.objects_dir / "wf-tmp")


def judge(repo: Repo) -> None:
    """Git finds every pack whole, and the repository too."""
    for pack in (repo.objects_dir / "pack").glob("*.pack"):
        repo.git("verify-pack", str(pack.with_suffix(".idx")))
        repo.git("index-pack", f"--object-format={repo.object_format}", "--verify", str(pack))
    told = repo.run("fsck", "--full", "--strict", "--no-progress")
    lines = (told.stdout + told.stderr).decode().splitlines()
    assert [line for line in lines if not line.startswith("dangling ")] == []


def add_commit(pack: Pack, tree: dict[bytes, Entry], *parents: Oid, message: str = "x\n") -> Oid:
    root = pack.add("tree", encode_tree(tree, pack.repo.object_format))
    return pack.add("commit", encode_commit(Commit(root, parents, ADA, ADA, message)))


class TestIndex:
    def test_small_offsets(self) -> None:
        entries = [PackEntry(b"\x02" * 20, 7, 99), PackEntry(b"\x01" * 20, 8, 12)]
        data = encode_index(entries, b"c" * 20, "sha1")
        assert data[:8] == b"\xfftOc\0\0\0\2"
        assert struct.unpack(">256I", data[8:1032]) == (0, 1, *(2,) * 254)
        assert data[1032:1088] == b"\x01" * 20 + b"\x02" * 20 + struct.pack(">4I", 8, 7, 12, 99)
        assert data[1088:1108] == b"c" * 20
        assert len(data) == 1128
        assert index_oids(data, "sha1") == ["01" * 20, "02" * 20]

    def test_large_offsets_have_a_table_of_their_own(self) -> None:
        offsets = [12, (1 << 31) - 1, 1 << 31, 5 << 32]
        entries = [PackEntry(bytes([n]) * 32, n, at) for n, at in enumerate(offsets)]
        data = encode_index(entries, b"c" * 32, "sha256")
        table = data[1032 + 4 * 32 + 4 * 4 :]
        assert struct.unpack(">4I", table[:16]) == (12, (1 << 31) - 1, 1 << 31, 1 << 31 | 1)
        assert struct.unpack(">2Q", table[16:32]) == (1 << 31, 5 << 32)
        assert table[32:64] == b"c" * 32
        assert len(table) == 96

    def test_git_reads_it(self, opened: Repo, tmp_path: Path) -> None:
        width = len(opened.null_oid) // 2
        entries = [PackEntry(os.urandom(width), n, 12 + n << 30) for n in range(50)]
        data = encode_index(entries, b"c" * width, opened.object_format)
        shown = opened.git("show-index", f"--object-format={opened.object_format}", stdin=data)
        assert shown.decode().splitlines() == [
            f"{entry.offset} {entry.oid.hex()} ({entry.crc:08x})" for entry in sorted(entries)
        ]

    @pytest.mark.parametrize("version", [1, 2])
    def test_git_s_own(self, opened: Repo, version: int) -> None:
        opened.git("-c", f"pack.indexVersion={version}", "repack", "-adq")
        (index,) = (opened.objects_dir / "pack").glob("*.idx")
        listed = opened.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        oids = index_oids(index.read_bytes(), opened.object_format)
        assert sorted(oids) == sorted(listed.decode().split())


class TestPack:
    def test_nothing_to_write(self, opened: Repo) -> None:
        assert Pack(opened).write() is None
        assert pack_files(opened) == []

    def test_a_commit_kept_until_released(self, opened: Repo) -> None:
        pack = Pack(opened)
        blob = pack.add("blob", b"hello\n")
        assert pack.add("blob", b"hello\n") == blob
        empty = Entry("40000", pack.add("tree", b""))
        tree = {b"f": Entry("100644", blob), b"e": Entry("100644", pack.add("blob", b""))}
        commit = add_commit(pack, {**tree, b"d": empty})
        assert len(pack) == 5
        assert blob in pack
        kept = written(pack)
        assert pack_files(opened) == [".idx", ".keep", ".pack"]
        assert kept.path.with_suffix(".keep").read_bytes() == KEEP_WORD
        assert [path.stat().st_mode & 0o777 for path in kept.path.parent.iterdir()] == [0o444] * 3
        kept.release()
        kept.release()
        assert pack_files(opened) == [".idx", ".pack"]
        assert scratch(opened) == []
        assert opened.git("cat-file", "blob", f"{commit}:f") == b"hello\n"
        judge(opened)

    def test_written_twice_is_two_packs(self, opened: Repo) -> None:
        for _ in range(2):
            pack = Pack(opened)
            add_commit(pack, {b"f": Entry("100644", pack.add("blob", b"same"))})
            written(pack).release()
        assert pack_files(opened) == [".idx", ".idx", ".pack", ".pack"]
        judge(opened)

    def test_a_thousand_objects_of_all_sizes(self, opened: Repo) -> None:
        pack = Pack(opened)
        data = os.urandom(70_000)
        sizes = [*range(1000), 4095, 4096, 65_535, 65_536]
        tree = {
            f"{size}".encode(): Entry("100644", pack.add("blob", data[:size])) for size in sizes
        }
        commit = add_commit(pack, tree)
        with written(pack):
            opened.git("update-ref", REF, commit)
        judge(opened)
        assert opened.git("cat-file", "blob", f"{REF}:65535") == data[:65_535]

    def test_durable(self, opened: Repo) -> None:
        pack = Pack(opened)
        add_commit(pack, {})
        kept = pack.write(durable=True)
        assert kept is not None
        kept.release()
        judge(opened)

    def test_modes_follow_the_object_directory(self, opened: Repo) -> None:
        opened.objects_dir.chmod(0o2750)
        pack = Pack(opened)
        pack.add("blob", b"x")
        with written(pack) as kept:
            assert kept.path.stat().st_mode & 0o777 == 0o440

    def test_a_failed_write_leaves_nothing(self, opened: Repo) -> None:
        pack = Pack(opened)
        oid = Oid(opened.git("hash-object", "-w", "--stdin", stdin=b"gone").decode().strip())
        with ObjectReader(opened) as reader:
            pack.add_existing(reader, [oid])
            (opened.objects_dir / oid[:2] / oid[2:]).unlink()
            with pytest.raises(GitFailed) as caught:
                pack.write()
        assert str(caught.value) == f"git cat-file: no object '{oid}'"
        assert pack_files(opened) == []
        assert scratch(opened) == []
        assert len(pack) == 0

    def test_a_pack_that_is_never_written_leaves_nothing(self, opened: Repo) -> None:
        pack = Pack(opened)
        with quarantine(opened) as place:
            opened.git("hash-object", "-w", "--stdin", stdin=b"x", env=place.env)
            pack.add_quarantine(place.path)
        assert len(scratch(opened)) == 1
        del pack
        assert scratch(opened) == []


class TestQuarantine:
    def test_git_writes_there_and_sees_all(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        (opened.work_tree / "new").write_text("new\n")
        before = opened.git("count-objects", "-v")
        with quarantine(opened) as place:
            opened.git("add", "-A", env=place.env)
            tree = opened.git("write-tree", env=place.env).decode().strip()
            assert place.path.parent.parent == opened.objects_dir / "wf-tmp"
        assert opened.git("count-objects", "-v") == before
        assert opened.run("cat-file", "-e", tree, ok=(0, 1)).returncode == 1
        assert scratch(opened) == []

    @pytest.mark.parametrize("name", ["a:b", '"quoted\\"', "new\nline:", "übung:\udcff"])
    def test_odd_names_of_the_repository(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.mkdir()
        git("init", "-q", ".", cwd=path)
        (path / "f").write_text("f")
        git("add", "f", cwd=path)
        git("commit", "-q", "-m", "first", cwd=path)
        repo = Repo(path / ".git", path / ".git", path, "sha1", os.environ)
        with quarantine(repo) as place:
            assert repo.git("cat-file", "blob", "HEAD:f", env=place.env) == b"f"

    def test_loose_objects_go_into_the_pack(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        (opened.work_tree / "src" / "big").write_bytes(b"0" * 5_000_000)
        (opened.work_tree / "empty").touch()
        pack = Pack(opened)
        with quarantine(opened) as place:
            opened.git("add", "-A", env=place.env)
            tree = Oid(opened.git("write-tree", env=place.env).decode().strip())
            pack.add_quarantine(place.path)
        assert len(pack) == 4  # two blobs, two trees
        commit = pack.add("commit", encode_commit(Commit(tree, (), ADA, ADA, "x\n")))
        with written(pack):
            opened.git("update-ref", REF, commit)
        assert scratch(opened) == []
        judge(opened)
        assert opened.git("ls-tree", "-r", "--name-only", REF) == b"README\nempty\nsrc/a\nsrc/big\n"

    def test_it_can_be_used_again_after_it_was_taken_over(self, opened: Repo) -> None:
        pack = Pack(opened)
        with quarantine(opened) as place:
            for data in (b"one", b"two"):
                opened.git("hash-object", "-w", "--stdin", stdin=data, env=place.env)
                pack.add_quarantine(place.path)
        assert len(pack) == 2
        written(pack).release()
        judge(opened)

    def test_packs_of_big_files_are_moved_whole(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        data = os.urandom(3_000_000)
        (opened.work_tree / "big").write_bytes(data)
        pack = Pack(opened)
        with quarantine(opened) as place:
            opened.git("-c", "core.bigFileThreshold=1m", "add", "-A", env=place.env)
            tree = Oid(opened.git("write-tree", env=place.env).decode().strip())
            assert len(list(place.path.glob("pack/*.pack"))) == 1
            pack.add_quarantine(place.path)
        commit = pack.add("commit", encode_commit(Commit(tree, (), ADA, ADA, "x\n")))
        with written(pack) as kept:
            assert len(kept.paths) == 2
            assert pack_files(opened).count(".keep") == 2
            opened.git("update-ref", REF, commit)
        assert ".keep" not in pack_files(opened)
        judge(opened)
        assert opened.git("cat-file", "blob", f"{REF}:big") == data

    def test_packs_of_small_files_become_part_of_ours(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        contents = {f"f{number}": os.urandom(number * 40) for number in range(1, 30)}
        for name, data in contents.items():
            (opened.work_tree / name).write_bytes(data)
        pack = Pack(opened)
        place = pack.quarantine()
        options = ("-c", "core.bigFileThreshold=0", "-c", "core.fsync=none")
        opened.git(*options, "add", "-A", env=place.env)
        tree = Oid(opened.git("write-tree", env=place.env).decode().strip())
        assert len(list(place.path.glob("pack/*.pack"))) == 1
        pack.take_in()
        commit = pack.add("commit", encode_commit(Commit(tree, (), ADA, ADA, "x\n")))
        with written(pack) as kept:
            assert len(kept.paths) == 1
            opened.git("update-ref", REF, commit)
        assert scratch(opened) == []
        judge(opened)
        for name, data in contents.items():
            assert opened.git("cat-file", "blob", f"{REF}:{name}") == data

    def test_big_objects_are_streamed(self, opened: Repo) -> None:
        size = 60_000_000
        pack = Pack(opened)
        with quarantine(opened) as place:
            _write_zeros(opened, place, size)
            pack.add_quarantine(place.path)
        tracemalloc.start()
        try:
            written(pack).release()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000
        judge(opened)

    def test_a_damaged_object_is_refused(self, opened: Repo) -> None:
        pack = Pack(opened)
        with quarantine(opened) as place:
            opened.git("hash-object", "-w", "--stdin", stdin=os.urandom(9000), env=place.env)
            (path,) = place.path.glob("[0-9a-f][0-9a-f]/*")
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[:5000])
            pack.add_quarantine(place.path)
        with pytest.raises(OSError, match=r"object [0-9a-f]+ is damaged"):
            pack.write()
        assert pack_files(opened) == []

    def test_what_a_killed_process_left_is_removed(self, opened: Repo) -> None:
        root = opened.objects_dir / "wf-tmp"
        (root / "1-dead" / "objects").mkdir(parents=True)
        os.utime(root / "1-dead", (1, 1))
        (root / "2-just-made").mkdir()
        with quarantine(opened) as place:
            os.utime(place.path.parent, (1, 1))
            with quarantine(opened):
                assert "1-dead" not in scratch(opened)
                assert "2-just-made" in scratch(opened)
                assert place.path.exists()


def _write_zeros(repo: Repo, place: Quarantine, size: int) -> None:
    command = repo.command("-c", "core.bigFileThreshold=1g", "hash-object", "-w", "--stdin")
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=repo.environment(place.env),
    ) as process:
        assert process.stdin is not None
        for _ in range(size // 1_000_000):
            process.stdin.write(b"\0" * 1_000_000)


class TestComplete:
    """What git had already is written again, where the old tree does not hold it."""

    def staged(self, repo: Repo, pack: Pack) -> Oid:
        with quarantine(repo) as place:
            repo.git("add", "-A", env=place.env)
            tree = Oid(repo.git("write-tree", env=place.env).decode().strip())
            pack.add_quarantine(place.path)
        return tree

    def test_unreachable_objects_are_taken_in(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        old = Oid(opened.line("rev-parse", "HEAD^{tree}"))
        deep = opened.work_tree / "src" / "deep" / "er"
        deep.mkdir(parents=True)
        (deep / "f").write_text("unreachable\n")
        opened.git("add", "-A")
        opened.git("write-tree")
        pack = Pack(opened)
        tree = self.staged(opened, pack)
        assert len(pack) == 0
        with ObjectReader(opened) as reader:
            pack.complete(reader, tree, old)
            assert len(pack) == 5  # the blob and its four directories
            commit = pack.add("commit", encode_commit(Commit(tree, (), ADA, ADA, "x\n")))
            kept = written(pack)
        with kept:
            opened.git("read-tree", "HEAD")
            opened.git("gc", "-q", "--prune=now")
            opened.git("update-ref", REF, commit)
        judge(opened)

    def test_nothing_is_taken_twice_in_an_ordinary_cycle(self, opened: Repo) -> None:
        assert opened.work_tree is not None
        old = Oid(opened.line("rev-parse", "HEAD^{tree}"))
        (opened.work_tree / "src" / "b").write_text("b\n")
        (opened.work_tree / "README").rename(opened.work_tree / "READ")
        pack = Pack(opened)
        tree = self.staged(opened, pack)
        assert len(pack) == 3
        with ObjectReader(opened) as reader:
            pack.complete(reader, tree, old)
            pack.complete(reader, tree, tree)
        assert len(pack) == 3

    def test_without_an_old_tree_all_is_taken_in(self, opened: Repo) -> None:
        tree = Oid(opened.line("rev-parse", "HEAD^{tree}"))
        pack = Pack(opened)
        with ObjectReader(opened) as reader:
            pack.complete(reader, tree, None)
        assert len(pack) == 4

    def test_a_file_that_became_a_directory_and_a_submodule(self, opened: Repo) -> None:
        pack = Pack(opened)
        blob = pack.add("blob", b"x")
        below = pack.add("tree", encode_tree({b"x": Entry("100644", blob)}, opened.object_format))
        old = Oid(opened.line("rev-parse", "HEAD^{tree}"))
        link = Oid("1" * len(blob))
        entries = {b"README": Entry("40000", below), b"sub": Entry("160000", link)}
        tree = pack.add("tree", encode_tree(entries, opened.object_format))
        with ObjectReader(opened) as reader:
            pack.complete(reader, tree, old)
        assert len(pack) == 3

    def test_what_is_gone_is_an_error_of_git(self, opened: Repo) -> None:
        pack = Pack(opened)
        gone = Oid("1" * len(opened.null_oid))
        tree = encode_tree({b"x": Entry("100644", gone)}, opened.object_format)
        with ObjectReader(opened) as reader, pytest.raises(GitFailed) as caught:
            pack.complete(reader, pack.add("tree", tree), None)
        assert str(caught.value) == f"git cat-file: no object '{gone}'"


KILLED = """
import os, sys
from pathlib import Path
from git_wf.store.packs import Pack
from git_wf.store.repo import Repo
pack = Pack(Repo.find(Path(sys.argv[1]), os.environ))
pack.add("blob", b"x")
kept = pack.write()
os.kill(os.getpid(), 9)
"""


class TestStaleKeeps:
    def test_only_those_of_dead_owners_go(self, opened: Repo) -> None:
        root = Path(__file__).resolve().parents[2]
        subprocess.run(
            [sys.executable, "-c", KILLED, os.fspath(opened.git_dir)],
            env={**os.environ, "PYTHONPATH": os.fspath(root)},
            check=False,
        )
        users = opened.objects_dir / "pack" / f"pack-{'1' * 40}.keep"
        users.write_text("mine\n")
        pack = Pack(opened)
        pack.add("blob", b"y")
        with written(pack) as kept:
            assert pack_files(opened).count(".keep") == 3
            assert len(release_stale_keeps(opened)) == 1
            assert kept.path.with_suffix(".keep").exists()
        assert users.exists()
        assert release_stale_keeps(opened) == []


class TestConsolidate:
    def packs(self, repo: Repo, count: int) -> list[Path]:
        parent = Oid(repo.line("rev-parse", "HEAD"))
        paths = []
        for number in range(count):
            pack = Pack(repo)
            blob = pack.add("blob", f"{number}\n".encode() * 100)
            parent = add_commit(pack, {b"f": Entry("100644", blob)}, parent)
            with written(pack) as kept:
                repo.git("update-ref", REF, parent)
                paths.append(kept.path)
        return paths

    def test_folds_ours_and_leaves_others(self, opened: Repo) -> None:
        opened.git("repack", "-adq")
        (others,) = (opened.objects_dir / "pack").glob("*.pack")
        left = consolidate(opened, self.packs(opened, 8))
        assert len(left) == 1
        assert set((opened.objects_dir / "pack").glob("*.pack")) == {others, *left}
        assert ".keep" not in pack_files(opened)
        assert scratch(opened) == []
        assert opened.line("rev-list", "--count", REF) == "9"
        judge(opened)
        assert consolidate(opened, left) == left

    def test_joining_starts_no_process(self, opened: Repo, tmp_path: Path) -> None:
        packs = self.packs(opened, 7)
        nowhere = replace(opened, env={"PATH": os.fspath(tmp_path)})  # there is no git in there
        left = join(nowhere, packs)
        assert len(left) == 1
        assert not any(path.exists() for path in packs)
        judge(opened)
        assert opened.line("rev-list", "--objects", "--count", REF) == str(3 * 7 + 5)

    def test_what_is_damaged_is_not_joined(self, opened: Repo) -> None:
        packs = self.packs(opened, 3)
        data = bytearray(packs[1].read_bytes())
        data[20] ^= 1
        packs[1].chmod(0o600)
        packs[1].write_bytes(data)
        assert join(opened, packs) == tuple(packs)
        assert scratch(opened) == []

    def test_a_long_run_has_few_packs(self, opened: Repo) -> None:
        small = SmallPacks(opened)
        most = 0
        for number, path in enumerate(self.packs(opened, 120), 1):
            small.add(path)
            to_come = 120 - number
            most = max(most, pack_files(opened).count(".pack") - to_come)
        assert most <= 16
        small.finish()
        assert pack_files(opened).count(".pack") == 3  # two of fifty checkpoints, one of the rest
        judge(opened)
        assert opened.line("rev-list", "--count", REF) == "121"

    def test_packs_that_gc_took_or_that_are_kept_are_left_out(self, opened: Repo) -> None:
        packs = self.packs(opened, 4)
        packs[1].with_suffix(".keep").touch()
        gone = opened.objects_dir / "pack" / "pack-gone.pack"
        left = consolidate(opened, [*packs, gone])
        assert len(left) == 1
        assert packs[1].exists()
        assert [path.exists() for path in packs] == [False, True, False, False]
        judge(opened)

    def test_a_multi_pack_index_is_not_pulled_from_under_git(self, opened: Repo) -> None:
        packs = self.packs(opened, 3)
        opened.git("multi-pack-index", "write")
        assert consolidate(opened, packs) == tuple(packs)
        judge(opened)

    def test_git_that_fails_changes_nothing(self, opened: Repo) -> None:
        packs = self.packs(opened, 3)
        packs[0].chmod(0o600)
        packs[0].write_bytes(b"PACK")
        assert consolidate(opened, packs) == tuple(packs)
        assert scratch(opened) == []


def test_gc_in_a_loop_beside_sixty_cycles(opened: Repo) -> None:
    """Pack, refs, release: nothing is lost, though gc prunes all the time."""
    stop = threading.Event()
    collections = []

    def collect() -> None:
        while not stop.is_set():
            collections.append(opened.run("gc", "-q", "--prune=now", ok=range(256)).returncode)

    thread = threading.Thread(target=collect)
    thread.start()
    small = SmallPacks(opened)
    try:
        with ObjectReader(opened) as reader:
            tip = Oid(opened.line("rev-parse", "HEAD"))
            for number in range(60):
                tip, kept = _cycle(opened, reader, tip, number)
                small.add(kept)
    finally:
        stop.set()
        thread.join()
    assert len(collections) >= 2
    judge(opened)
    assert opened.line("rev-list", "--count", REF) == "61"


def _cycle(repo: Repo, reader: ObjectReader, tip: Oid, number: int) -> tuple[Oid, Path]:
    assert repo.work_tree is not None
    path = repo.work_tree / f"f{number % 3}"
    path.write_text(f"{number}\n" * 50)
    index = repo.git_dir / "run-index"
    while True:
        # Git has the content already, nothing refers to it, and gc is about to drop it.
        repo.run("hash-object", "-w", os.fspath(path), ok=range(256))
        pack = Pack(repo)
        try:
            tree = _staged(repo, pack, index)
            pack.complete(reader, tree, reader.read_commit(tip).tree)
            commit = Commit(tree, (tip,), ADA, ADA, f"cycle {number}\n")
            oid = pack.add("commit", encode_commit(commit))
            kept = written(pack)
            break
        except GitFailed:
            index.unlink(missing_ok=True)  # it names what gc took: all is staged again
    with kept:
        repo.git("update-ref", RefName(REF), oid)
    return oid, kept.path


def _staged(repo: Repo, pack: Pack, index: Path) -> Oid:
    with quarantine(repo) as place:
        env = {**place.env, "GIT_INDEX_FILE": os.fspath(index)}
        repo.git("add", "-A", env=env)
        tree = Oid(repo.git("write-tree", env=env).decode().strip())
        pack.add_quarantine(place.path)
    return tree
