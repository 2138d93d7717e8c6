"""Another repository: which refs it has, and moving refs there and objects here.

A push names for each ref the value that the remote is expected to have, so that nothing that
somebody else put there is ever overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from git_wf.core.names import Oid, RefName
from git_wf.errors import Conflict, GitFailed, UserError
from git_wf.store.refs import RefUpdate
from git_wf.store.repo import Repo

# What git says of a ref that is not any more what the push expected of it.
_LOST = (
    "stale info", "cannot lock ref", "incorrect old value", "fetch first", "failed to update",
    "transaction failed",
)  # fmt: skip
_NO_ATOMIC = "does not support --atomic"
_NO_ACCESS = (
    "could not read Username", "Authentication failed", "Permission denied", "prompts disabled",
)  # fmt: skip
_BATCH = 200  # refs that one command line names


class Refusal(Exception):
    """The remote was reached, and does not take a ref; nothing has moved where it was atomic."""

    def __init__(self, reasons: Mapping[RefName, str], told: str) -> None:
        super().__init__(told)
        self.reasons = reasons
        self.told = told  # what the remote itself said

    @property
    def is_about_history(self) -> bool:
        return any("non-fast-forward" in reason for reason in self.reasons.values())

    @property
    def why(self) -> str:
        return self.told or next(iter(self.reasons.values()))


@dataclass(frozen=True)
class Remote:
    """`name` is a configured remote, a URL or a path."""

    repo: Repo
    name: str

    def refs(self, *patterns: str) -> dict[RefName, Oid]:
        """The refs there whose whole name matches; `*` stands for anything."""
        listed = self._git("ls-remote", "--quiet", "--refs", "--", self.name, *patterns)
        refs = {}
        for line in os.fsdecode(listed).splitlines():
            oid, _, ref = line.partition("\t")
            if any(ref.startswith(pattern.removesuffix("*")) for pattern in patterns):
                refs[RefName(ref)] = Oid(oid)
        return refs

    def fetch(self, refs: Mapping[RefName, RefName]) -> None:
        """Brings refs (there → here); those here are new ones, and nothing else is touched."""
        pairs = [f"+{there}:{here}" for there, here in refs.items()]
        for start in range(0, len(pairs), _BATCH):
            self._git(
                "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--atomic",
                "--no-recurse-submodules", "--no-auto-maintenance", "--", self.name,
                *pairs[start : start + _BATCH],
            )  # fmt: skip

    def push(self, updates: Sequence[RefUpdate]) -> None:
        """Moves refs there: all or none, where the remote can. The user's own hooks run.

        Raises `Refusal` where the remote takes one not, `Conflict` where one was moved meanwhile.
        """
        if not updates:
            return
        try:
            self._push(["--atomic"], updates)
        except GitFailed as err:
            if _NO_ATOMIC not in err.stderr:
                raise self._failure(err) from err
            self._push_each(updates)

    def _push_each(self, updates: Sequence[RefUpdate]) -> None:
        try:
            self._push([], updates)
        except GitFailed as err:
            raise self._failure(err) from err

    def _push(self, options: Sequence[str], updates: Sequence[RefUpdate]) -> None:
        leases = [f"--force-with-lease={one.ref}:{one.old or ''}" for one in updates]
        refspecs = [f"{one.new or ''}:{one.ref}" for one in updates]
        hooks = self.repo.config_values().get("core.hookspath", [])
        done = self.repo.run(
            "-c", f"core.hooksPath={hooks[-1] if hooks else self.repo.common_dir / 'hooks'}",
            "push", "--porcelain", "--no-recurse-submodules", *options, *leases, "--", self.name,
            *refspecs,
            ok=(0, 1),
        )  # fmt: skip
        if done.returncode != 0:
            self._judge(os.fsdecode(done.stdout), done.stderr.decode("utf-8", "replace"))

    def _judge(self, answer: str, told: str) -> None:
        """Raises what a push that did not go through tells."""
        reasons = {}
        for line in answer.splitlines():
            if line.startswith("!\t"):
                _, refs, why = line.split("\t", 2)
                reasons[RefName(refs.rpartition(":")[2])] = why
        for ref, why in reasons.items():
            if any(word in why for word in _LOST):
                raise Conflict(
                    f"'{ref}' was moved at '{self.name}' meanwhile",
                    hint=f"git wf fetch {self.name}",
                )
        said = [line.removeprefix("remote: ").strip() for line in told.splitlines()
                if line.startswith("remote: ")]  # fmt: skip
        if not reasons or any("remote failure" in why for why in reasons.values()):
            raise GitFailed(self.repo.command("push"), 1, told)
        raise Refusal(reasons, " ".join(word for word in said if word))

    def _git(self, *args: str) -> bytes:
        try:
            return self.repo.git(*args)
        except GitFailed as err:
            raise self._failure(err) from err

    def _failure(self, err: GitFailed) -> UserError:
        """What a user can be told of a remote that cannot be spoken with."""
        told, hint = err.stderr, f"git ls-remote {self.name} shows whether it is there; then again"
        if any(word in told for word in _NO_ACCESS):
            hint = f"git ls-remote {self.name} asks for what it needs; a credential helper keeps it"
        elif "does not appear to be a git repository" in told or "not found" in told:
            hint = "git remote -v lists the remotes"
        return UserError(f"remote '{self.name}': {_first(told)}", hint=hint)


def _first(told: str) -> str:
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    return (marked or lines or ["it does not answer"])[0].partition(": ")[2] or "no answer"


def remote_names(repo: Repo) -> list[str]:
    return repo.line("remote").splitlines()


def default_remote(repo: Repo) -> str:
    """As git would push: `remote.pushDefault`, the branch's own, the only one, `origin`."""
    config, names = repo.config_values(), remote_names(repo)
    head = (repo.head_ref() or "").removeprefix("refs/heads/")
    for key in ("remote.pushdefault", f"branch.{head}.remote"):
        found = config.get(key)
        if found and found[-1] != ".":
            return found[-1]
    if len(names) == 1 or "origin" in names:
        return "origin" if "origin" in names else names[0]
    raise UserError(
        "no remote is named" if names else "this repository has no remote",
        hint="git wf push REMOTE, of git remote -v" if names else "git remote add origin URL",
    )


def new_objects(repo: Repo, tips: Iterable[Oid], known: Iterable[Oid]) -> list[tuple[Oid, str]]:
    """What leaves with `tips`, with a path each: all that neither `known` nor any remote has.

    `known` are commits; one that is not here is passed over.
    """
    stdin = "".join([*(f"{tip}\n" for tip in tips), *(f"^{oid}\n" for oid in known)])
    listed = repo.git(
        "rev-list", "--objects", "--ignore-missing", "--stdin", "--not", "--remotes",
        stdin=stdin.encode(),
    )  # fmt: skip
    found = []
    for line in os.fsdecode(listed).splitlines():
        oid, _, path = line.partition(" ")
        found.append((Oid(oid), path))
    return found


def contains(repo: Repo, roots: Sequence[str], commit: Oid) -> bool:
    """Whether a ref of `roots` (a ref, or a directory) has a commit in its past."""
    done = repo.run("for-each-ref", "--count=1", f"--contains={commit}", *roots, ok=(0, 128, 129))
    return done.returncode == 0 and bool(done.stdout)


def empty_commit(repo: Repo, message: str, identity_env: Mapping[str, str]) -> Oid:
    """A commit without files, which no ref holds yet."""
    tree = os.fsdecode(repo.git("mktree", stdin=b"")).strip()
    made = repo.git("commit-tree", tree, "-F", "-", stdin=message.encode(), env=identity_env)
    return Oid(os.fsdecode(made).strip())


def set_branch_remote(repo: Repo, branch: str, remote: str) -> None:
    """Where a branch goes to and comes from, as git itself keeps it."""
    key = f"branch.{branch}.remote"
    if remote in remote_names(repo) and repo.config_values().get(key, [""])[-1] != remote:
        repo.git("config", "--replace-all", key, remote)
