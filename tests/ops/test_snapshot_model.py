"""Random edits, saves, restores and rewinds against a model that keeps copies of whole folders."""

from __future__ import annotations

import os
import random
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from git_wf.core.names import ulid
from git_wf.errors import UserError
from git_wf.ops.host import Host
from git_wf.ops.snapshot import Asked, restore, rewind, save
from git_wf.ops.snapshot_view import compare
from git_wf.ops.workspace import Workspace, open_workspace
from tests.conftest import git
from tests.program import FakeClock

NAMES = ("a", "b", "c d", "ü", "x.sh", "nl\nx")
FOLDERS = ("", "d", "d/e", "f", "n")
IGNORED = "i.log"
Files = dict[str, tuple[int, bytes]]  # path → mode (all of it), and bytes or the text of a link


def files_in(top: Path) -> tuple[Files, set[str], Files]:
    """What is to be captured, the empty directories, and what is ignored."""
    captured: Files = {}
    ignored: Files = {}
    empty: set[str] = set()
    for where, names, files in os.walk(top):
        if ".git" in names:
            names.remove(".git")
        here = os.path.relpath(where, top)
        for name in names + files:
            path = name if here == "." else f"{here}/{name}"
            status = os.lstat(os.path.join(where, name))
            if stat.S_ISDIR(status.st_mode):
                if not os.listdir(os.path.join(where, name)):
                    empty.add(path)
                continue
            mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
            whole = os.path.join(where, name)
            data = os.readlink(whole).encode() if not mode else Path(whole).read_bytes()
            (ignored if name == IGNORED else captured)[path] = (mode, data)
    return captured, empty, ignored


@dataclass
class Kept:
    files: Files
    empty: set[str]
    since: str | None


@dataclass
class Play:
    """The workspace, and beside it what was in it at every save."""

    top: Path
    workspace: Workspace
    dice: random.Random
    kept: dict[str, Kept] = field(default_factory=dict)
    counted: list[str] = field(default_factory=list)
    cursor: str | None = None
    at_cursor: tuple[Files, set[str]] | None = None

    def edit(self) -> None:
        for _ in range(self.dice.randrange(1, 5)):
            self.one_edit()

    def one_edit(self) -> None:
        folder = self.top / self.dice.choice(FOLDERS)
        path = folder / self.dice.choice((*NAMES, *NAMES, IGNORED))
        kind = self.dice.randrange(10)
        if kind == 0:
            self.remove(folder if folder != self.top else path)
        elif kind == 1:
            self.remove(path)
        elif kind == 2 and path.is_file() and not path.is_symlink():
            path.chmod(self.dice.choice((0o600, 0o644, 0o755, 0o664, 0o700)))
        elif kind == 3 and self.make_room(path):
            path.symlink_to(self.dice.choice(("a", "d", "/nowhere")))
        elif kind == 4 and path.name != IGNORED and self.make_room(path):
            (path / "deep").mkdir(parents=True)
        elif kind == 5 and (self.top / ".git").exists():
            git("add", "-A", cwd=self.top)
        elif self.make_room(path):
            path.write_bytes(self.dice.choice((b"", b"x\n", b"y\r\n", os.urandom(9))))

    def make_room(self, path: Path) -> bool:
        """Whether something new can be put at a path."""
        for above in (path.parent, *path.parent.parents):
            if above == self.top:
                break
            if above.is_symlink() or (above.exists() and not above.is_dir()):
                above.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.remove(path)
        return True

    def remove(self, path: Path) -> None:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir() and not (path / ".git").exists():
            shutil.rmtree(path)

    # What is done, and judged.

    def save(self) -> None:
        files, empty, _ = files_in(self.top)
        done = save(self.workspace, Asked("s"))
        if not done.is_new:
            assert done.snapshot.id == self.cursor
            assert (files, empty) == self.at_cursor
            assert empty == self.kept[self.cursor].empty
            return
        self.note(done.snapshot.id, files, empty)
        self.counted.append(done.snapshot.id)

    def note(self, made: str, files: Files, empty: set[str]) -> None:
        self.kept[made] = Kept(files, empty, self.cursor)
        self.cursor, self.at_cursor = made, (files, empty)

    def restore(self) -> None:
        if self.kept:
            target = self.dice.choice(sorted(self.kept))
            self.judge(target, lambda: restore(self.workspace, target))

    def rewind(self) -> None:
        steps = self.steps()
        if steps:
            count = self.dice.randrange(1, len(steps) + 1)
            self.judge(steps[count - 1], lambda: rewind(self.workspace, count))
        with pytest.raises(UserError):
            rewind(self.workspace, len(steps) + 1)

    def steps(self) -> list[str]:
        here, found = self.cursor, []
        if self.at_cursor != files_in(self.top)[:2] and here in self.counted:
            found.append(here)
        while here is not None:
            here = self.kept[here].since
            if here in self.counted and here not in found:
                found.append(here)
        return found

    def judge(self, target: str, act) -> None:
        before = files_in(self.top)
        try:
            done = act()
        except UserError:
            assert files_in(self.top) == before
            return
        files, empty, ignored = files_in(self.top)
        wanted = self.kept[target]
        assert done.snapshot.id == target
        assert files == wanted.files
        assert {one for one in wanted.empty if not (self.top / one).is_dir()} == set()
        assert ignored == before[2]
        if done.before is not None and done.before.id not in self.kept:
            self.note(done.before.id, *before[:2])
        self.cursor, self.at_cursor = target, (files, empty)

    def look(self) -> None:
        """What `diff` tells is what is different."""
        if self.cursor is None:
            return
        told = compare(self.workspace, [self.cursor])
        files, _, _ = files_in(self.top)
        was = self.kept[self.cursor].files
        named = {one.path for one in told.files} | {one.old_path for one in told.files} - {None}
        assert named == {path for path in {*was, *files} if was.get(path) != files.get(path)}


@pytest.fixture
def play(repo: Path, request: pytest.FixtureRequest) -> Play:
    seed, is_own = request.param
    top = repo if is_own else repo.parent / "folder"
    if not is_own:
        top.mkdir()
    (top / ".gitignore").write_text(f"{IGNORED}\n")
    clock, count = FakeClock(), iter(range(10_000))
    host = Host(top, dict(os.environ), clock, lambda _: ulid(next(count), bytes(10)))
    return Play(top, open_workspace(host), random.Random(seed))


SEEDS = [(1, True), (2, False)]
MORE = [pytest.param((seed, True), marks=pytest.mark.slow) for seed in range(3, 40)]


@pytest.mark.parametrize("play", [*SEEDS, *MORE], indirect=True)
def test_it_is_as_the_copies_say(play: Play) -> None:
    for _ in range(24):
        play.edit()
        act = play.dice.choice((play.save, play.save, play.restore, play.rewind, play.look))
        act()
    play.save()
    for target in sorted(play.kept):
        play.judge(target, lambda target=target: restore(play.workspace, target))
    play.workspace.close()
    git("fsck", "--full", "--strict", cwd=play.workspace.store.repo.common_dir)
