"""Finding a repository, asking it, and running git in it: every call of git passes through here.

Each call is sealed: the repository and worktree are named (a node may delete `.git`), no hook of
the user fires on bookkeeping, no maintenance starts behind a run, git speaks English and UTF-8,
and nothing asks a question or opens an editor.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from git_wf.core.names import Oid
from git_wf.errors import GitFailed, UserError

SEALED = (
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "maintenance.auto=false",
    "-c", "gc.auto=0",
    "-c", "i18n.commitEncoding=UTF-8",
    "-c", "core.quotePath=false",
    "-c", "core.ignoreStat=false",  # with it, git takes what it wrote once as unchanged for ever
    "-c", "color.ui=false",
    "-c", "diff.orderFile=/dev/null",  # one that is not in this worktree makes `status` fail
    "-c", "advice.detachedHead=false",
)  # fmt: skip
_ANSWERS = (6, 7)  # lines that `rev-parse` gives for what `Repo.find` asks, and the end
MINIMUM_VERSION = (2, 38)
# What git exports to hooks and aliases, and what would steer a call of ours elsewhere: first what
# says which repository is meant, then the rest.
LOCATING = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CEILING_DIRECTORIES",
    "GIT_IMPLICIT_WORK_TREE",
)  # fmt: skip
MISLEADING = (
    "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_CONFIG", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE", "GIT_ATTR_SOURCE",
)  # fmt: skip


def scrubbed_env(
    env: Mapping[str, str], names: Sequence[str] = (*LOCATING, *MISLEADING)
) -> dict[str, str]:
    """`env` without what git exports to hooks: for other repositories, worktrees and nodes."""
    return {key: value for key, value in env.items() if key not in names}


@dataclass(frozen=True)
class Repo:
    """A repository, and the worktree in it that we stand in (none in a bare one).

    What needs only the object store uses `git`; what needs a worktree gets a `Repo` of that
    worktree by `at_worktree`.
    """

    git_dir: Path  # of this worktree: `<common>/worktrees/<name>` in a linked one
    common_dir: Path
    work_tree: Path | None
    object_format: str  # `sha1` or `sha256`
    env: Mapping[str, str] = field(repr=False)

    @classmethod
    def find(cls, where: Path, env: Mapping[str, str]) -> Repo:
        """The repository that `git -C where` would use. Raises `UserError` where there is none."""
        asking_env = _speaking_english(scrubbed_env(env, MISLEADING))
        command = [
            "git", "-C", os.fspath(where), "rev-parse", "--absolute-git-dir", "--git-common-dir",
            "--is-bare-repository", "--show-object-format", "--is-inside-work-tree", "--show-cdup",
        ]  # fmt: skip
        try:
            answer = subprocess.run(
                command,
                env=asking_env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError as err:
            raise UserError("git is not installed", hint="install git 2.38 or newer") from err
        if answer.returncode != 0:
            told = answer.stderr.decode("utf-8", "replace").strip()
            if "not a git repository" in told or not told:
                raise UserError(
                    f"not a git repository: '{where}'",
                    hint="git init, then git commit, or git wf run --in-place WORKFLOW",
                )
            # What it would have the user type is indented.
            typed = [line[1:] for line in told.split("\n") if line.startswith("\t")]
            raise GitFailed(command, answer.returncode, told, hint=typed)
        lines = answer.stdout.decode("utf-8", "surrogateescape").split("\n")
        if len(lines) not in _ANSWERS or not {lines[2], lines[4]} <= {"true", "false"}:
            told = "a repository with a line break in its path is not supported"
            raise UserError(told, hint="mv it to a path without one")
        git_dir = Path(lines[0])
        common = Path(os.path.join(where, lines[1])).resolve()
        work_tree = None
        if lines[4] == "true":
            work_tree = Path(os.path.normpath(os.path.join(os.path.realpath(where), lines[5])))
        elif lines[2] != "true":
            # GIT_WORK_TREE may name one that we do not stand in; in a git directory there is none.
            top = subprocess.run(
                ["git", "-C", os.fspath(where), "rev-parse", "--show-toplevel"],
                env=asking_env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            ).stdout
            work_tree = Path(os.fsdecode(top[:-1])) if top else None
        return cls(git_dir.resolve(), common, work_tree, lines[3], env)

    def at_worktree(self, path: Path, git_dir: Path) -> Repo:
        """The same repository, seen from the linked worktree at `path`."""
        return Repo(git_dir, self.common_dir, path, self.object_format, scrubbed_env(self.env))

    @property
    def null_oid(self) -> Oid:
        return Oid("0" * (40 if self.object_format == "sha1" else 64))

    @property
    def objects_dir(self) -> Path:
        return self.common_dir / "objects"

    def run_lock(self, run: str) -> Path:
        """The lock of a run: whoever holds it is at work on it."""
        return self.common_dir / "git-wf" / f"{run}.lock"

    @property
    def key(self) -> str:
        """`<repository>-<hash>`: the name of its directory below the state directory."""
        real = os.path.realpath(self.common_dir)
        base = Path(real)
        name = base.parent.name if base.name == ".git" else base.name.removesuffix(".git")
        digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
        return f"{name or 'repository'}-{digest}"

    def command(self, *args: str) -> list[str]:
        """The argv of a sealed call."""
        return ["git", *self._place(), *SEALED, *args]

    def _place(self) -> list[str]:
        place = ["--git-dir", os.fspath(self.git_dir)]
        if self.work_tree is not None:
            place += ["--work-tree", os.fspath(self.work_tree)]
        return place

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a sealed call."""
        return {**_speaking_english(scrubbed_env(self.env)), **(extra or {})}

    def git(
        self,
        *args: str,
        stdin: bytes | None = None,
        ok: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> bytes:
        """What git prints. Raises `GitFailed` where it ends with a status that is not in `ok`."""
        return self.run(*args, stdin=stdin, ok=ok, env=env, cwd=cwd).stdout

    def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        ok: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        command = self.command(*args)
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env=self.environment(env),
            cwd=cwd or self._standing_place(),
            capture_output=True,
            check=False,
            start_new_session=True,  # a Ctrl-C is ours to answer, and not in the middle of a cycle
        )
        if done.returncode not in ok:
            raise GitFailed(command, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done

    def _standing_place(self) -> Path:
        """The worktree, unless a node removed it."""
        if self.work_tree is not None and self.work_tree.is_dir():
            return self.work_tree
        return self.common_dir

    def line(self, *args: str, ok: Sequence[int] = (0,)) -> str:
        """One line of answer, without its newline; empty where git printed none."""
        return os.fsdecode(self.git(*args, ok=ok)).removesuffix("\n")

    # Named questions.

    def resolve(self, revision: str) -> Oid | None:
        """The commit that `revision` names, or None."""
        found = self.line(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
            ok=(0, 1, 128),
        )  # fmt: skip
        return Oid(found) if found else None

    def head_ref(self) -> str | None:
        """The ref that HEAD points to; None where it is detached."""
        return self.line("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)) or None

    def is_ancestor(self, old: str, new: str) -> bool:
        done = self.run("merge-base", "--is-ancestor", old, new, ok=(0, 1))
        return done.returncode == 0

    def index_is_at(self, commit: str) -> bool:
        """Whether the index of this worktree is just what a commit has."""
        done = self.run("diff-index", "--cached", "--quiet", commit, "--", ok=(0, 1, 128))
        return done.returncode == 0

    def config_values(self) -> dict[str, list[str]]:
        """Key (section and name in lower case) → its values, weakest first; asked for once."""
        return self._config

    @cached_property
    def _config(self) -> dict[str, list[str]]:
        listed = self._unsealed("config", "--null", "--list")
        values: dict[str, list[str]] = {}
        for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
            if entry:
                key, _, value = entry.partition("\n")
                values.setdefault(key, []).append(value)
        return values

    def is_partial(self) -> bool:
        """Whether objects may be missing that a remote has promised."""
        keys = self.config_values()
        promising = (key for key in keys if key.startswith("remote.") and key.endswith(".promisor"))
        return "extensions.partialclone" in keys or any(promising)

    def pager(self) -> str:
        """The command that git would show its output by."""
        return os.fsdecode(self._unsealed("var", "GIT_PAGER")).removesuffix("\n")

    def _unsealed(self, *args: str) -> bytes:
        """An answer about the user's settings, which those of a sealed call would hide."""
        command = ["git", *self._place(), *args]
        done = subprocess.run(
            command,
            env={**scrubbed_env(self.env), "LC_ALL": "C"},
            cwd=self._standing_place(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise GitFailed(command, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def version(self) -> tuple[int, ...]:
        """`(2, 39, 5)`."""
        words = self.line("version").split()
        numbers = []
        for part in words[2].split("."):
            if not part.isdecimal():
                break
            numbers.append(int(part))
        return tuple(numbers)


def _speaking_english(env: Mapping[str, str]) -> dict[str, str]:
    return {
        **env,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "false",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_PAGER": "cat",
    }


def split_nul(data: bytes) -> Iterable[str]:
    """The entries of a `-z` listing, as file system texts."""
    return (os.fsdecode(entry) for entry in data.split(b"\0") if entry)
