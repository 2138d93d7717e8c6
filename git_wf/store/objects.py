"""Git's objects in this process: their ids and encodings, and a live reader of the repository.

Nothing here writes: new objects go through `packs`. Both object formats are known; text in
commits is UTF-8 with `surrogateescape`, so that every commit comes out again byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from git_wf.core.names import Oid
from git_wf.errors import StateUnreadable
from git_wf.store.repo import Repo

TREE_MODE = "40000"
GITLINK_MODE = "160000"
# While gc exchanges packs, git's look into their directory can miss the old one and the new one.
_TRIES = 3
_AT_ONCE = 10_000  # objects that `read_many` asks one process for
_REMEMBERED = 16  # commits
PROMISED = "this is a partial clone: what is missing comes from its remote"
CHUNK = 1 << 20  # bytes that are held at a time of an object that is streamed


class Entry(NamedTuple):
    """What a name in a tree stands for. The mode is as trees have it: `100644`, `40000`."""

    mode: str
    oid: Oid

    @property
    def kind(self) -> str:
        if self.mode == TREE_MODE:
            return "tree"
        return "commit" if self.mode == GITLINK_MODE else "blob"


Tree = dict[bytes, Entry]


@dataclass(frozen=True)
class Commit:
    """A commit object. `author` and `committer` are `Name <mail> seconds zone`.

    `extra` are the headers after them (`encoding`, `gpgsig`, …) in order; a value of several
    lines holds them without the space that continues a header.
    """

    tree: Oid
    parents: tuple[Oid, ...]
    author: str
    committer: str
    message: str
    extra: tuple[tuple[str, str], ...] = ()


def new_hash(object_format: str) -> Any:
    """A hashlib object for `sha1` or `sha256`."""
    return hashlib.new(object_format, usedforsecurity=False)


def object_header(kind: str, size: int) -> bytes:
    return f"{kind} {size}\0".encode()


def hash_object(kind: str, data: bytes, object_format: str) -> Oid:
    digest = new_hash(object_format)
    digest.update(object_header(kind, len(data)))
    digest.update(data)
    return Oid(digest.hexdigest())


def encode_tree(tree: Mapping[bytes, Entry], object_format: str) -> bytes:
    """A tree object. Git sorts a directory as if its name ended in a slash."""
    width = 2 * new_hash(object_format).digest_size
    parts = []
    for name in sorted(tree, key=lambda name: _sort_key(name, tree[name].mode)):
        mode, oid = tree[name]
        assert name and b"/" not in name and b"\0" not in name, name
        assert len(oid) == width, oid
        parts.append(b"%b %b\0%b" % (mode.lstrip("0").encode(), name, bytes.fromhex(oid)))
    return b"".join(parts)


def _sort_key(name: bytes, mode: str) -> bytes:
    return name + b"/" if mode.lstrip("0") == TREE_MODE else name


def decode_tree(data: bytes, object_format: str) -> Tree:
    """Raises `StateUnreadable` where `data` is no tree object."""
    width = new_hash(object_format).digest_size
    tree: Tree = {}
    at = 0
    try:
        while at < len(data):
            space = data.index(b" ", at)
            nul = data.index(b"\0", space)
            after = nul + 1 + width
            if after > len(data):
                raise ValueError("cut off")
            oid = Oid(data[nul + 1 : after].hex())
            tree[data[space + 1 : nul]] = Entry(data[at:space].decode("ascii"), oid)
            at = after
    except ValueError as err:
        raise StateUnreadable(f"read tree: not a tree object: {err}") from err
    return tree


def encode_commit(commit: Commit) -> bytes:
    headers: list[tuple[str, str]] = [("tree", commit.tree)]
    headers += [("parent", parent) for parent in commit.parents]
    headers += [("author", commit.author), ("committer", commit.committer)]
    assert all("\n" not in value for _, value in headers), headers
    assert "\0" not in commit.message, commit.message
    continued = [(key, value.replace("\n", "\n ")) for key, value in commit.extra]
    head = "".join(f"{key} {value}\n" for key, value in [*headers, *continued])
    return f"{head}\n{commit.message}".encode("utf-8", "surrogateescape")


def decode_commit(data: bytes) -> Commit:
    """Raises `StateUnreadable` where `data` is no commit object."""
    head, _, message = data.decode("utf-8", "surrogateescape").partition("\n\n")
    headers: list[tuple[str, str]] = []
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        if not key and headers:
            headers[-1] = (headers[-1][0], f"{headers[-1][1]}\n{value}")
        else:
            headers.append((key, value))
    parents = []
    rest = iter(headers)
    try:
        tree = _expect("tree", next(rest))
        key, value = next(rest)
        while key == "parent":
            parents.append(Oid(value))
            key, value = next(rest)
        author = _expect("author", (key, value))
        committer = _expect("committer", next(rest))
    except (StopIteration, ValueError) as err:
        raise StateUnreadable("read commit: not a commit object") from err
    return Commit(Oid(tree), tuple(parents), author, committer, message, tuple(rest))


def _expect(key: str, header: tuple[str, str]) -> str:
    if header[0] != key:
        raise ValueError(header[0])
    return header[1]


class Info(NamedTuple):
    """What is known of an object without its content."""

    oid: Oid
    kind: str
    size: int


class ObjectReader:
    """A live `git cat-file`: about 0.1 ms an object. Safe to share between threads.

    Expressions are whatever git resolves (`refs/wf/meta/<id>:checkpoint.json`). The process is
    started at the first question, and again after it died.
    """

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._closed = False
        self._commits: dict[str, Commit] = {}

    def find(self, expression: str) -> Info | None:
        """What `expression` names, or None where there is no such object."""
        with self._turn:
            return self._ask("info", expression)

    def require(self, expression: str) -> Info:
        """As `find`; raises `StateUnreadable` where there is no such object."""
        info = self.find(expression)
        if info is None:
            raise StateUnreadable(f"no object '{expression}'")
        return info

    def read(self, expression: str) -> tuple[str, bytes]:
        """Kind and content. Raises `StateUnreadable` where there is no such object."""
        parts: list[bytes] = []
        info = self.stream(expression, parts.append)
        return info.kind, b"".join(parts)

    def stream(self, expression: str, take: Callable[[bytes], object]) -> Info:
        """Hands the content to `take` in parts of at most `CHUNK` bytes."""
        with self._turn:
            info = self._ask("contents", expression)
            if info is None:
                raise StateUnreadable(f"no object '{expression}'")
            try:
                self._hand_over(info, take)
            except BaseException:
                self._stop()  # what is left in the pipe would answer the next question
                raise
            return info

    def read_commit(self, expression: str) -> Commit:
        """The last ones that were asked for by their ids are remembered."""
        known = self._commits.get(expression)
        if known is None:
            known = decode_commit(self._read_kind("commit", expression))
            if len(expression) == len(self.repo.null_oid):
                self._commits[expression] = known
            while len(self._commits) > _REMEMBERED:
                self._commits.pop(next(iter(self._commits)), None)
        return known

    def read_tree(self, expression: str) -> Tree:
        return decode_tree(self._read_kind("tree", expression), self.repo.object_format)

    def read_blob(self, expression: str) -> bytes:
        return self._read_kind("blob", expression)

    def read_many(self, oids: Iterable[Oid]) -> dict[Oid, tuple[str, bytes]]:
        """Kind and content of each object that is there, by one process: for many small ones.

        One that is missing, or cannot be read, is left out.
        """
        wanted = list(dict.fromkeys(oids))
        found: dict[Oid, tuple[str, bytes]] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            found.update(self._read_part(wanted[start : start + _AT_ONCE]))
        return found

    def _read_part(self, oids: Sequence[Oid]) -> dict[Oid, tuple[str, bytes]]:
        request = "".join(f"{oid}\n" for oid in oids).encode()
        done = self.repo.run("cat-file", "--batch", "--buffer", stdin=request, ok=(0, 128))
        if done.returncode == 0:
            return dict(_split_batch(done.stdout))
        found = {}  # git ends at the first damaged object: ask for each
        for oid in oids:
            with suppress(StateUnreadable):
                found[oid] = self.read(oid)
        return found

    def close(self) -> None:
        with self._turn:
            self._stop()
            self._closed = True

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_kind(self, kind: str, expression: str) -> bytes:
        found, data = self.read(expression)
        if found != kind:
            raise StateUnreadable(f"object '{expression}' is a {found}, not a {kind}")
        return data

    def _ask(self, what: str, expression: str) -> Info | None:
        """The header of the answer; nothing is left in the pipe where there is no such object."""
        if "\n" in expression or "\0" in expression:
            raise StateUnreadable(f"no object {expression!r}: a name is one line")
        for _ in range(_TRIES):
            info = self._ask_once(what, expression)
            if info is not None:
                return info
        return None

    def _ask_once(self, what: str, expression: str) -> Info | None:
        """As `_ask`. A process that died is replaced, once."""
        request = os.fsencode(f"{what} {expression}\n")
        answer = self._header(request) or self._header(request)
        words = os.fsdecode(answer.rstrip(b"\n")).split(" ")
        if len(words) == 3 and words[2].isdecimal():
            return Info(Oid(words[0]), words[1], int(words[2]))
        if words[-1] == "ambiguous":
            raise StateUnreadable(f"object '{expression}' is ambiguous")
        if words[-1] != "missing":
            self._stop()
            hints = [PROMISED] if self.repo.is_partial() else []
            raise StateUnreadable(f"object '{expression}' cannot be read", hint=hints)
        return None

    def _header(self, request: bytes) -> bytes:
        """The line of answer; empty where the process ended instead."""
        try:
            process = self._running()
            _pipe(process.stdin).write(request)
            _pipe(process.stdin).flush()
            answer = _pipe(process.stdout).readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            self._stop()
        return answer

    def _hand_over(self, info: Info, take: Callable[[bytes], object]) -> None:
        assert self._process is not None
        source = _pipe(self._process.stdout)
        left = info.size + 1  # and a newline
        while left:
            part = source.read(min(left, CHUNK))
            if not part:
                raise StateUnreadable(f"object '{info.oid}' cannot be read")
            left -= len(part)
            take(part if left else part[:-1])

    def _running(self) -> subprocess.Popen[bytes]:
        assert not self._closed, self.repo
        if self._process is None:
            self._process = subprocess.Popen(
                self.repo.command("cat-file", "--batch-command"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.repo.environment(),
                cwd=self.repo.common_dir,
                start_new_session=True,  # a Ctrl-C is for us, not for our live processes
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it only reads
        for pipe in (process.stdin, process.stdout):
            try:
                _pipe(pipe).close()
            except BrokenPipeError:
                continue
        process.wait()


def _split_batch(told: bytes) -> Iterator[tuple[Oid, tuple[str, bytes]]]:
    """The objects in what `cat-file --batch` printed; those that are missing are left out."""
    at = 0
    while at < len(told):
        end = told.index(b"\n", at)
        words = os.fsdecode(told[at:end]).split(" ")
        at = end + 1
        if len(words) == 3 and words[2].isdecimal():
            size = int(words[2])
            yield Oid(words[0]), (words[1], told[at : at + size])
            at += size + 1


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
