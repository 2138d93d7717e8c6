"""Repositories of every odd kind: run, log, rewind, fork and resume work there, or say why not."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.conftest import git
from tests.ops.journey import Odd, notices_of, soil, timeline, travel, unchanged, users_state
from tests.program import Program, Result, run_id, write_workflow
from tests.tree import ROOT

Make = Callable[[Path], Odd]
KINDS: dict[str, Make] = {}
LOCAL = ("-c", "protocol.file.allow=always")


def kind(make: Make) -> Make:
    """Adds a builder: it gets an empty directory."""
    KINDS[make.__name__] = make
    return make


def make(path: Path, *options: str) -> Path:
    """As `make_repo`, but with options of `git init`."""
    path.mkdir(parents=True)
    git("init", "-q", *options, ".", cwd=path)
    (path / "README").write_text("hello\n")
    commit(path)
    return path


def commit(path: Path) -> None:
    git("add", "-A", cwd=path)
    git("commit", "-q", "--allow-empty", "-m", "more", cwd=path)


def origin(tmp: Path) -> Path:
    """Some commits, and files in directories; it lets itself be cloned in part."""
    path = make(tmp / "origin")
    for number in range(4):
        for name in ("in", "out"):
            file = path / name / f"{number}"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{name} {number}\n" * 20)
        (path / "in" / "0").write_text(f"changed {number}\n")
        commit(path)
    git("config", "uploadpack.allowFilter", "true", cwd=path)
    git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=path)
    return path


def clone(source: Path, *options: str) -> Path:
    path = source.parent / "clone"
    git("clone", "-q", *options, source.as_uri(), str(path), cwd=source.parent)
    return path


# How objects and refs are kept.


@kind
def plain(tmp: Path) -> Odd:
    return Odd(make(tmp / "repo"))


@kind
def sha256(tmp: Path) -> Odd:
    return Odd(make(tmp / "repo", "--object-format=sha256"))


def knows_reftable() -> bool:
    done = subprocess.run(["git", "init", "-h"], capture_output=True, check=False)
    return b"--[no-]ref-format" in done.stdout or b"--ref-format" in done.stdout


if knows_reftable():

    @kind
    def reftable(tmp: Path) -> Odd:
        return Odd(make(tmp / "repo", "--ref-format=reftable"))

    @kind
    def reftable_with_sha256(tmp: Path) -> Odd:
        return Odd(make(tmp / "repo", "--ref-format=reftable", "--object-format=sha256"))


@kind
def packed(tmp: Path) -> Odd:
    """Refs in one file, a commit graph, a multi-pack index with a bitmap."""
    path = origin(tmp)
    git("gc", "-q", cwd=path)
    commit(path)
    git("repack", "-q", "-d", cwd=path)
    git("multi-pack-index", "write", "--bitmap", cwd=path)
    git("commit-graph", "write", "--reachable", "--split", cwd=path)
    git("pack-refs", "--all", cwd=path)
    return Odd(path)


@kind
def shared_clone(tmp: Path) -> Odd:
    source = origin(tmp)
    return Odd(clone(source, "--shared"))


@kind
def chain_of_alternates(tmp: Path) -> Odd:
    """As long as git takes one; two of its links are relative paths."""
    before = make(tmp / "0")
    for number in range(1, 7):
        path = tmp / str(number)
        git("clone", "-q", "--shared", "--no-local", str(before), str(path), cwd=tmp)
        alternates = path / ".git" / "objects" / "info" / "alternates"
        link = f"../../../{before.name}/.git/objects" if number > 4 else f"{before}/.git/objects"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{link}\n")
        git("repack", "-adlq", cwd=path)
        before = path
    return Odd(before)


@kind
def replaced_history(tmp: Path) -> Odd:
    """Commits and a blob that git shows others for."""
    path = origin(tmp)
    tip, old = (git("rev-parse", name, cwd=path) for name in ("HEAD", "HEAD~3"))
    git("replace", "--graft", tip, old, cwd=path)
    blob = git("hash-object", "-w", "--stdin", cwd=path, stdin=b"another\n")
    git("replace", git("rev-parse", "HEAD:out/1", cwd=path), blob, cwd=path)
    git("reset", "-q", "--hard", cwd=path)
    return Odd(path, script="echo x >>out/2; cp out/2 copy; git rm -q --cached out/1; rm -f out/1")


@kind
def shallow(tmp: Path) -> Odd:
    return Odd(clone(origin(tmp), "--depth=1"))


@kind
def shallow_and_gone(tmp: Path) -> Odd:
    source = origin(tmp)
    path = clone(source, "--depth=2")
    shutil.rmtree(source)
    return Odd(path)


@kind
def blobless_and_gone(tmp: Path) -> Odd:
    """A partial clone whose promisor is there no more."""
    source = origin(tmp)
    path = clone(source, "--filter=blob:none")
    shutil.rmtree(source)
    return Odd(path, script="rm in/1; mv out out2; echo more >>out2/3")


@kind
def treeless_and_gone(tmp: Path) -> Odd:
    source = origin(tmp)
    path = clone(source, "--filter=tree:0")
    shutil.rmtree(source)
    return Odd(path, script="rm in/1; mv out out2; echo more >>out2/3")


@kind
def partial_and_sparse(tmp: Path) -> Odd:
    """What the run's worktree needs beside the cone comes from the promisor."""
    path = clone(origin(tmp), "--filter=blob:none", "--sparse")
    git("sparse-checkout", "set", "in", cwd=path)
    return Odd(path, script="cat out/3 >>in/0", paths=["out/3"])


# Where the worktree and the git directory are.


@kind
def linked(tmp: Path) -> Odd:
    path = make(tmp / "repo")
    git("worktree", "add", "-q", "-b", "side", "../linked", cwd=path)
    (tmp / "linked" / "sub").mkdir()
    return Odd(tmp / "linked", cwd=tmp / "linked" / "sub")


@kind
def linked_to_a_bare_one(tmp: Path) -> Odd:
    bare = tmp / "repo.git"
    git("clone", "-q", "--bare", str(make(tmp / "source")), str(bare), cwd=tmp)
    git("worktree", "add", "-q", "../linked", "main", cwd=bare)
    return Odd(tmp / "linked")


@kind
def in_a_submodule(tmp: Path) -> Odd:
    part, whole = make(tmp / "part"), make(tmp / "whole")
    git(*LOCAL, "submodule", "add", "-q", str(part), "part", cwd=whole)
    commit(whole)
    return Odd(whole / "part")


@kind
def with_submodules(tmp: Path) -> Odd:
    """Dirty in the user's checkout; the node fetches one, commits in it, and leaves it dirty."""
    inner, part, whole = make(tmp / "inner"), make(tmp / "part"), make(tmp / "whole")
    git(*LOCAL, "submodule", "add", "-q", str(inner), "inner", cwd=part)
    commit(part)
    for name in ("one", "two", "three"):
        git(*LOCAL, "submodule", "add", "-q", str(part), name, cwd=whole)
    git(*LOCAL, "submodule", "update", "-q", "--init", "--recursive", cwd=whole)
    commit(whole)
    (whole / "one" / "README").write_text("dirty\n")
    (whole / "two" / "untracked").write_text("dirty\n")
    (whole / "three" / "inner" / "README").write_text("dirty\n")
    commit(whole / "three" / "inner")
    return Odd(whole, script=f"git {' '.join(LOCAL)} submodule update -q --init one")


@kind
def separate_git_dir(tmp: Path) -> Odd:
    path = make(tmp / "repo", "--separate-git-dir", str(tmp / "elsewhere"))
    return Odd(path)


@kind
def worktree_config(tmp: Path) -> Odd:
    """Settings of one worktree alone: where it is, that it is sparse."""
    bare = tmp / "repo.git"
    git("clone", "-q", "--bare", str(origin(tmp)), str(bare), cwd=tmp)
    git("config", "extensions.worktreeConfig", "true", cwd=bare)
    git("config", "--unset", "core.bare", cwd=bare)
    (bare / "config.worktree").write_text("[core]\n\tbare = true\n")
    git("worktree", "add", "-q", "../linked", "main", cwd=bare)
    git("sparse-checkout", "set", "in", cwd=tmp / "linked")
    git("config", "--worktree", "user.name", "Wanda Worktree", cwd=tmp / "linked")
    return Odd(tmp / "linked", script="cat out/3 >>in/0", paths=["out/3"])


@kind
def worktree_elsewhere(tmp: Path) -> Odd:
    """core.worktree names a directory that has no `.git` of its own."""
    home = tmp / "home"
    home.mkdir()
    git_dir = make(tmp / "dots") / ".git"
    git("config", "core.worktree", str(home), cwd=git_dir)
    git("--git-dir", str(git_dir), "reset", "-q", "--hard", cwd=home)
    (home / ".git").write_text(f"gitdir: {git_dir}\n")
    return Odd(home)


def other_file_system(tmp: Path) -> Path | None:
    """A directory on another file system than `tmp`."""
    for name in ("/dev/shm", "/run/shm", "/var/tmp"):
        path = Path(name)
        if path.is_dir() and os.access(path, os.W_OK) and path.stat().st_dev != tmp.stat().st_dev:
            return path
    return None


@kind
def objects_behind_a_symlink(tmp: Path) -> Odd:
    path = make(tmp / "repo")
    (path / ".git" / "objects").rename(tmp / "objects")
    (path / ".git" / "objects").symlink_to(tmp / "objects")
    return Odd(path)


@kind
def odd_path(tmp: Path) -> Odd:
    """The path of the repository has whatever a shell, git or a terminal could trip over."""
    name = os.fsdecode(b"-r \"q\" 'q' $(touch pwned) `x`; \\ \xff\xc2\x9b2J :*?[a]#&|<>~%41 ")
    return Odd(make(tmp / name))


# What the checkout is like.


@kind
def detached(tmp: Path) -> Odd:
    path = origin(tmp)
    git("switch", "-q", "--detach", "HEAD~1", cwd=path)
    return Odd(path)


@kind
def sparse_cone(tmp: Path) -> Odd:
    path = origin(tmp)
    git("sparse-checkout", "set", "--cone", "in", cwd=path)
    return Odd(path, script="cat out/3 >>in/0", paths=["out/3"])


@kind
def sparse_index(tmp: Path) -> Odd:
    path = origin(tmp)
    git("sparse-checkout", "set", "--cone", "--sparse-index", "in", cwd=path)
    return Odd(path, script="cat out/3 >>in/0", paths=["out/3"])


@kind
def sparse_patterns(tmp: Path) -> Odd:
    path = origin(tmp)
    git("sparse-checkout", "set", "--no-cone", "/*", "!/out/", cwd=path)
    return Odd(path, script="cat out/3 >>in/0", paths=["out/3"])


@kind
def in_the_middle_of_a_merge(tmp: Path) -> Odd:
    path = make(tmp / "repo")
    git("switch", "-q", "-c", "side", cwd=path)
    (path / "README").write_text("side\n")
    commit(path)
    git("switch", "-q", "main", cwd=path)
    (path / "README").write_text("main\n")
    commit(path)
    git("merge", "side", cwd=path, ok=(1,))
    return Odd(path, is_soiled=False, notices=["starting from HEAD: left out are README"])


@kind
def odd_index(tmp: Path) -> Odd:
    """Split, with an untracked cache, of version 4; entries that are assumed unchanged."""
    path = origin(tmp)
    git("config", "index.version", "4", cwd=path)
    git("update-index", "--index-version", "4", "--untracked-cache", "--split-index", cwd=path)
    git("update-index", "--assume-unchanged", "in/1", cwd=path)
    git("update-index", "--skip-worktree", "in/2", cwd=path)
    for name in ("in/1", "in/2"):
        (path / name).write_text("changed\n")
    odd = soil(Odd(path))
    (path / "later").write_text("later\n")
    git("add", "-N", "later", cwd=path)
    return replace(odd, is_soiled=False)


ODD_NAMES = [
    b"a\nb", b'"q"', b"'q'", b"-rf", b"--output=x", b"\xff\xfe", b"\x9b2J", b"\x1b[31m", b" ",
    b"tab\t", b"back\\slash", b":(exclude)*", b"*", b"$(touch pwned)", b"{a,b}", b"#x", b"!x",
    b"\xc2\x9b", "\u202ex".encode(), b"~", b"@", b"HEAD", b"caf\xc3\xa9",
    b"cafe\xcc\x81", b"x" * 255,
]  # fmt: skip


@kind
def odd_names(tmp: Path) -> Odd:
    """Tracked files and directories of every name: some change, some go, some come."""
    path = make(tmp / "repo")
    names = [os.fsdecode(name) for name in ODD_NAMES]
    for name in names:
        (path / name).write_text("old\n")
    directory = path / "sub"
    directory.mkdir()
    for name in names:
        (directory / name).mkdir()
        (directory / name / name).write_text("old\n")
    commit(path)
    # Every second name of the top goes; every file below gets a line, and a neighbour.
    script = (
        "i=0; for f in ./[!A-Zn]* ./.[!.g]*; do i=$((i + 1)); "
        'test -f "$f" || continue; test $((i % 2)) = 0 && rm "$f"; done; '
        'for d in sub/* sub/.[!.]*; do test -d "$d" || continue; '
        'for f in "$d"/*; do echo more >>"$f"; done; cp "$f" "$d/new"; done'
    )
    return Odd(path, script=script, paths=[f"sub/{name}/new" for name in names])


@kind
def odd_symlinks(tmp: Path) -> Odd:
    """That loop, dangle, lead outside; that take the place of a directory, and the other way."""
    path = make(tmp / "repo")
    outside = tmp / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (path / "loop").symlink_to("loop")
    (path / "dangling").symlink_to("nowhere")
    (path / "out").symlink_to(outside)
    (path / "into").symlink_to("dir")
    (path / "dir").mkdir()
    (path / "dir" / "file").write_text("file\n")
    (path / "was").mkdir()
    (path / "was" / "file").write_text("file\n")
    commit(path)
    script = (
        "rm -r was; ln -s ../outside was; rm into; mkdir into; echo x >into/file; "
        "ln -s loop2 loop1; ln -s loop1 loop2; ln -s / root; ln -s ../../.. up; "
        f"ln -s {outside}/secret link; rm dangling; ln -s elsewhere dangling"
    )
    made = ["was", "into/file", "loop1", "loop2", "root", "up", "link", "dangling", "out", "loop"]
    return Odd(path, script=script, paths=made)


@kind
def fifos_and_sockets(tmp: Path) -> Odd:
    """In the checkout, and made by the node; one in the place of a tracked file."""
    path = origin(tmp)
    os.mkfifo(path / "fifo")
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    script = f'mkfifo fifo in/fifo; rm in/1; mkfifo in/1; python3 -c "{bind}"'
    return Odd(path, script=script, paths=["in/0"])


@kind
def nested_repositories(tmp: Path) -> Odd:
    """With commits, without one, in one another, bare; their own configuration runs nothing."""
    path = make(tmp / "repo")
    evil = tmp / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 $* >>{tmp}/was-run\n")
    evil.chmod(0o755)
    script = (
        "for d in full empty full/inner; do git init -q $d; echo x >$d/file; done; "
        "git -C full add file; git -C full commit -q -m inner; "
        "git -C full/inner add file; git init -q --bare bare; "
        f"for d in full empty; do git -C $d config core.fsmonitor {evil}; "
        f"git -C $d config filter.x.clean {evil}; git -C $d config diff.external {evil}; "
        'echo "* filter=x" >$d/.gitattributes; done'
    )
    made = ["full/file", "empty/file", "full/inner/file", "bare/HEAD", "full/.gitattributes"]
    begin = "nested repositories stored as plain files: "
    return Odd(path, script=script, paths=made, notices=[f"{begin}empty/, full/, full/inner/"])


# Filters and line endings.

LFS = """#!/bin/sh
# A stand-in for git-lfs: what git has of a file is a pointer to it.
store={store}
case $1 in
clean) data=$(mktemp); cat >"$data"; id=$(git hash-object --no-filters "$data")
    mv "$data" "$store/$id"; printf 'version stand-in\\noid %s\\n' "$id" ;;
smudge) pointer=$(cat); id=${{pointer##* }}; cat "$store/$id" ;;
esac
"""


def with_lfs(tmp: Path) -> Path:
    path = make(tmp / "repo")
    store, program = tmp / "store", tmp / "lfs"
    store.mkdir()
    program.write_text(LFS.format(store=store))
    program.chmod(0o755)
    for verb in ("clean", "smudge"):
        git("config", f"filter.lfs.{verb}", f"{program} {verb}", cwd=path)
    git("config", "filter.lfs.required", "true", cwd=path)
    (path / ".gitattributes").write_text("*.bin filter=lfs -text\n")
    (path / "big.bin").write_bytes(bytes(range(256)) * 100)
    commit(path)
    return path


@kind
def lfs(tmp: Path) -> Odd:
    path = with_lfs(tmp)
    assert git("show", "HEAD:big.bin", cwd=path).startswith("version stand-in")
    script = "test $(wc -c <big.bin) = 25600; cat big.bin big.bin >other.bin"
    return Odd(path, script=script, paths=["other.bin"])


@kind
def line_endings(tmp: Path) -> Odd:
    path = make(tmp / "repo")
    git("config", "core.autocrlf", "true", cwd=path)
    (path / ".gitattributes").write_text("*.crlf eol=crlf\n*.sjis working-tree-encoding=UTF-16\n")
    (path / "a.crlf").write_bytes(b"one\r\ntwo\r\n")
    (path / "a.sjis").write_bytes("one\r\n".encode("utf-16"))
    (path / "mixed").write_bytes(b"one\r\ntwo\n\0")
    commit(path)
    odd = soil(Odd(path))
    git("config", "core.safecrlf", "true", cwd=path)
    script = "printf 'a\\r\\nb\\n' >new.crlf; printf 'a\\r\\nb\\n' >mixed2; cat a.sjis >b.sjis"
    made = ["new.crlf", "mixed2", "b.sjis"]
    return replace(odd, script=script, paths=made, is_soiled=False)


@pytest.mark.parametrize("name", KINDS)
def test_a_run_in(wf: Program, tmp_path: Path, name: str) -> None:
    place = tmp_path / "odd"
    place.mkdir()
    travel(wf, soil(KINDS[name](place)), tmp_path / "w.dot")
    found = [path for path in tmp_path.rglob("*") if path.name in ("pwned", "was-run")]
    assert not found


# What does not fit the builders.


def program(cwd: Path, *words: str | Path, **options: Any) -> Result:
    """The program in a process of its own, as somebody else or with less memory."""
    done = subprocess.run(
        [sys.executable, "-m", "git_wf", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        **options,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_on_another_file_system(wf: Program, tmp_path: Path) -> None:
    """Than the state directory is on."""
    with ExitStack() as stack:
        places = [tmp_path / "one"]
        if elsewhere := other_file_system(tmp_path):
            places.append(Path(stack.enter_context(TemporaryDirectory(dir=elsewhere))))
        for place in places:
            travel(wf, soil(plain(place)), tmp_path / "w.dot")


def files(tmp: Path, count: int) -> Path:
    """A repository of so many files, made without a process a file."""
    path = tmp / "many"
    git("init", "-q", str(path), cwd=tmp)
    stream = ["blob\nmark :1\ndata 5\nfile\n\n", "commit refs/heads/main\n"]
    stream += ["committer A <a@example.org> 1700000000 +0000\ndata 5\nmany\n\n"]
    stream += [f"M 100644 :1 d{number % 100}/s{number % 7}/f{number}\n" for number in range(count)]
    stream += ["M 100644 inline README\ndata 6\nhello\n\n"]
    git("fast-import", "--quiet", cwd=path, stdin="".join(stream).encode())
    git("reset", "-q", "--hard", cwd=path)
    return path


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_files(wf: Program, tmp_path: Path, count: int) -> None:
    script = "rm -r d1; mv d2 d102; for f in d3/s*/*; do echo x >>$f; done"
    odd = Odd(files(tmp_path, count), script=script, paths=["d102/s2/f2"])
    travel(wf, soil(odd), tmp_path / "w.dot")


MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("size", "memory", "threshold"),
    [(100, 95, "16m"), pytest.param(2048, 600, "512m", marks=pytest.mark.slow)],
)
def test_a_big_file(repo: Path, tmp_path: Path, size: int, memory: int, threshold: str) -> None:
    """It is streamed: no process of ours, nor a git of ours, may have so much memory (MiB)."""
    git("config", "core.bigFileThreshold", threshold, cwd=repo)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory * MEBIBYTE, memory * MEBIBYTE))

    def limited(*words: str | Path, cwd: Path) -> Result:
        return program(cwd, *words, preexec_fn=limit)

    script = f"truncate -s {size}M big; echo tail >>big"
    travel(
        limited, soil(Odd(repo, script=script, paths=["big"], is_short=True)), tmp_path / "w.dot"
    )
    run = git("for-each-ref", "--format=%(refname)", "refs/heads/wf/run", cwd=repo).splitlines()
    assert git("cat-file", "-s", f"{run[0]}:big", cwd=repo) == str(size * MEBIBYTE + 5)


def test_unreadable_files(tmp_path: Path) -> None:
    """The checkpoint is made without them, and says so."""
    path = make(tmp_path / "repo")
    (path / "known").write_text("known\n")
    commit(path)
    script = (
        "chmod 0 known; echo secret >new; chmod 0 new; mkdir dir; echo x >dir/x; chmod 0 dir; "
        "echo x >beside"
    )
    notice = "files that cannot be read are left out: dir/, known, new"
    made = ["known", "beside"]
    odd = soil(Odd(path, script=script, paths=made, notices=[notice], is_short=True))
    travel(
        lambda *words, cwd: program(cwd, *words, preexec_fn=drop_privileges),
        odd,
        tmp_path / "w.dot",
    )


def drop_privileges() -> None:
    """To root, no file is unreadable: it gives that up, and stays who it is."""
    if os.geteuid() == 0:
        drop, override, read_search = 24, 1, 2  # PR_CAPBSET_DROP, CAP_DAC_…
        prctl = ctypes.CDLL(None).prctl
        if prctl(drop, override) != 0 or prctl(drop, read_search) != 0:
            raise OSError("prctl")


# Refused, or done in part, and said.


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    path.mkdir()
    return path


def refused(wf: Program, odd: Odd, workflow: Path) -> str:
    """What a run is told that cannot begin; it leaves nothing behind."""
    write_workflow(workflow, 'a [script="true"] start -> a -> exit')
    state = Path(os.environ["XDG_STATE_HOME"])
    with unchanged(odd):
        result = wf("run", workflow, cwd=odd.where)
    assert (result.status, result.out) == (128, "")
    assert [path for path in state.rglob("*") if path.is_file()] == []
    listed = git("worktree", "list", "--porcelain", cwd=odd.top).split("\n\n")
    assert len(listed) == 1
    return result.err


def test_a_promisor_that_is_gone_and_needed(wf: Program, place: Path) -> None:
    odd = partial_and_sparse(place)
    base = git("rev-parse", "HEAD", cwd=odd.top)
    (place / "origin").rename(place / "away")
    assert refused(wf, odd, place / "w.dot") == (
        f"fatal: git reset: fatal: '{place}/origin' does not appear to be a git repository\n"
        f"hint: git worktree add --detach PATH {base[:12]} fails in the same way\n"
        "hint: this is a partial clone: files that are missing come from its remote\n"
    )


@pytest.mark.parametrize("filtered", ["blob:none", "tree:0"])
def test_runs_in_a_partial_clone(wf: Program, place: Path, filtered: str) -> None:
    """What is missing is fetched where that can be; else it is said what is missing and why."""
    source = origin(place)
    script = 'a [script="echo 1 >a"] b [script="mv a c"] start -> a -> b -> exit'
    run = wf.ok("run", write_workflow(place / "w.dot", script), cwd=source).out.strip()
    path = clone(source, f"--filter={filtered}", "--no-checkout")
    refs = ["+refs/heads/wf/*:refs/heads/wf/*", "+refs/wf/*:refs/wf/*"]
    git("fetch", "-q", "origin", *refs, cwd=path)
    source.rename(place / "away")
    tree = git("rev-parse", f"refs/wf/meta/{run}^{{tree}}", cwd=place / "away")
    record = git("rev-parse", f"refs/wf/meta/{run}:run.json", cwd=place / "away")
    missing = {"blob:none": record, "tree:0": tree}[filtered]
    for words in (["log"], ["show", "b"], ["rewind", "a"], ["fork", "a"], ["resume"]):
        told = f"fatal: object '{missing}' cannot be read\n"
        hint = "hint: this is a partial clone: what is missing comes from its remote\n"
        wf.fails(128, words, told + hint, cwd=path)
    (place / "away").rename(source)
    assert len(wf.ok("log", "--json", cwd=path).json["checkpoints"]) == 2
    wf.ok("rewind", "a", cwd=path)
    wf.ok("resume", cwd=path)
    assert timeline(Odd(path), run) == [("a", 1, "success"), ("b", 1, "success")]


def test_a_smudge_filter_that_fails(wf: Program, place: Path) -> None:
    path = with_lfs(place)
    base = git("rev-parse", "HEAD", cwd=path)
    shutil.rmtree(place / "store")
    assert refused(wf, Odd(path), place / "w.dot") == (
        f"fatal: git reset: error: external filter '{place}/lfs smudge' failed 1\n"
        f"hint: git worktree add --detach PATH {base[:12]} fails in the same way\n"
    )


@pytest.mark.parametrize("heals", [True, False])
def test_a_clean_filter_that_fails(wf: Program, place: Path, heals: bool) -> None:
    """Told; the run goes on, the next checkpoint is whole; else the worktree stays."""
    path = with_lfs(place)
    mend = f"mv {place}/away {place}/lfs;" if heals else ""
    workflow = write_workflow(
        place / "w.dot",
        f"""
        a [script="echo a >a; mv {place}/lfs {place}/away; echo x >x.bin"]
        b [script="{mend} echo b >b"]
        start -> a -> b -> exit
        """,
    )
    before = users_state(path)
    result = wf.ok("run", workflow, cwd=path)
    run = result.out.strip()
    why = f"git status: error: external filter '{place}/lfs clean' failed 127"
    skipped = f"no checkpoint could be recorded: {why}"
    if heals:
        assert notices_of(result) == [skipped, "1 checkpoint could not be recorded"]
        assert timeline(Odd(path), run) == [("b", 1, "success")]
        assert git("show", f"wf/run/{run}:x.bin", cwd=path).startswith("version stand-in")
        assert git("show", f"wf/run/{run}:a", cwd=path) == "a"
        assert users_state(path) == before
        return
    left = f"unrecorded changes are left in the worktree: {why}"
    assert notices_of(result) == [skipped, skipped, left, "2 checkpoints could not be recorded"]
    (place / "away").rename(place / "lfs")
    assert users_state(path) == before
    (kept,) = (line for line in result.err.splitlines() if line.startswith("worktree:"))
    assert (Path(kept.split()[1]) / "x.bin").read_text() == "x\n"


def test_a_repository_of_somebody_else(
    wf: Program, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(place / "repo")
    workflow = write_workflow(place / "w.dot", 'a [script="true"] start -> a -> exit')
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "true")
    told = f"fatal: git rev-parse: fatal: detected dubious ownership in repository at '{path}'\n"
    hint = f"hint: git config --global --add safe.directory {path}\n"
    for words in (["log"], ["runs"], ["rewind"], ["run", str(workflow)]):
        wf.fails(128, words, told + hint, cwd=path)


def test_nodes_that_differ_in_case(wf: Program, place: Path) -> None:
    """Each has its own trace and target, and what git stores fits a file system without case."""
    odd = plain(place)
    workflow = write_workflow(
        place / "w.dot",
        """
        fix [script="echo fix"] Fix [script="echo Fix"] FIX [script="echo FIX"]
        start -> fix -> Fix -> FIX -> exit
        """,
    )
    with unchanged(odd):
        run = wf.ok("run", workflow, cwd=odd.top).out.strip()
        assert [node for node, _, _ in timeline(odd, run)] == ["fix", "Fix", "FIX"]
        for ordinal, node in enumerate(("fix", "Fix", "FIX"), 1):
            shown = wf.ok("show", node, "--json", cwd=odd.top).json
            assert (shown["ordinal"], shown["node"]) == (ordinal, node)
            log = f"{shown['metadata_commit']}:nodes/{node}/stdout.log"
            assert git("show", log, cwd=odd.top) == node
        wf.ok("rewind", "Fix", cwd=odd.top)
        wf.ok("resume", cwd=odd.top)
        assert [node for node, _, _ in timeline(odd, run)] == ["fix", "Fix", "FIX"]


def test_refs_that_look_like_ours(wf: Program, place: Path) -> None:
    """Tags and branches of the same short names lead nobody astray."""
    odd = plain(place)
    git("branch", "HEAD", cwd=odd.top, ok=(0, 128))
    git("update-ref", "refs/heads/HEAD", "HEAD", cwd=odd.top)
    for run in (run_id(1), run_id(2)):
        for name in (f"wf/run/{run}", f"wf/meta/{run}", f"heads/wf/run/{run}", run):
            git("tag", name, "HEAD", cwd=odd.top)
    for name in ("HEAD", "main", "edit", "edit@1"):
        git("update-ref", f"refs/tags/{name}", "HEAD", cwd=odd.top)
    travel(wf, soil(odd), place / "w.dot")


@pytest.mark.parametrize(
    ("script", "is_work"),
    [
        ("true", False),
        ("echo x >part/x", True),
        ("echo x >part/x; git -C part add x; git -C part commit -q -m inner", True),
        (
            "cd part; echo x >x; git add x; git commit -q -m inner; "
            "git push -q origin HEAD:refs/heads/side",
            False,
        ),
        ("git -C part/inner commit -q --allow-empty -m inner", True),
    ],
)
def test_work_in_a_submodule(wf: Program, place: Path, script: str, is_work: bool) -> None:
    """What a node leaves there is in no other repository: the run's worktree stays for it."""
    inner, part, whole = (make(place / name) for name in ("inner", "part", "whole"))
    for source, target in ((inner, part), (part, whole)):
        git(*LOCAL, "submodule", "add", "-q", str(source), source.name, cwd=target)
        commit(target)
    fetch = f"git {' '.join(LOCAL)} submodule update -q --init --recursive"
    workflow = write_workflow(
        place / "w.dot", f'a [script="{fetch} && ({script})"] start -> a -> exit'
    )
    with unchanged(Odd(whole)):
        result = wf.ok("run", workflow, cwd=whole)
    trees = list(Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/trees/*/part/.git"))
    if not is_work:
        assert (notices_of(result), trees) == ([], [])
        return
    told = "work in submodules is in no remote of theirs: part; the worktree stays"
    assert notices_of(result) == [told]
    (link,) = trees
    assert f"worktree:     {link.parent.parent}\n" in result.err
    recorded = git("rev-parse", f"wf/run/{result.out.strip()}:part", cwd=whole)
    git("cat-file", "-e", recorded, cwd=link.parent)
    wf.ok("rewind", "@0", cwd=whole)
    wf.ok("resume", cwd=whole)
    assert link.exists()
