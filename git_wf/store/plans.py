"""A change of refs as data: made from what is there, shown as plain git, applied as one.

Every operation that moves refs (rewind, fork, undo, …) is a function from the repository's state
to a `RefPlan`. `apply_plan` carries it out; `plan_script` writes it as a script that does the same
with nothing but git, which is what `--dry-run` prints.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.names import Names, Oid, RefName
from git_wf.store.files import remove_tree
from git_wf.store.identity import Identity
from git_wf.store.objects import (
    Commit,
    Tree,
    decode_commit,
    decode_tree,
    encode_commit,
    encode_tree,
    hash_object,
)
from git_wf.store.packs import Pack, release_stale_keeps
from git_wf.store.refs import (
    RefUpdate,
    in_order,
    move_refs,
    remove_packed_lock,
    remove_stale_locks,
)
from git_wf.store.repo import Repo
from git_wf.store.rescue import Rescue, rescue_worktree
from git_wf.store.staging import nested_repositories, remove_index_lock
from git_wf.store.worktree import remove_worktree

# Author and committer lines that git makes of its environment just so: it strips these marks from
# both ends of a name and an address.
_INNER = """[^<>\\s.,:;"\\\\']"""
_ENDS = f"{_INNER}(?:[^<>\\n]*{_INNER})?"
_IDENT = re.compile(f"({_ENDS}) <({_ENDS})> ([0-9]+ [+-][0-9]{{4}})")
# Control codes, marks that reorder text on a terminal, bytes that are not UTF-8.
_ODD = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
# What a here-document gives back as it is, and a terminal shows without harm.
_PLAIN = re.compile(f"(?:[^{_ODD}]*\n)?")
_BYTES = re.compile("[\ud800-\udfff]")
_MANY_PARENTS = 256  # more of them are no command line to read
_PLAIN_NAME = re.compile(f'[^{_ODD}\t\n"\\\\]+')


@dataclass(frozen=True)
class NewObject:
    """An object that an operation will make. `name` says to people what it is."""

    name: str
    kind: str
    data: bytes
    oid: Oid


def new_blob(name: str, data: bytes, object_format: str) -> NewObject:
    return NewObject(name, "blob", data, hash_object("blob", data, object_format))


def new_tree(name: str, entries: Tree, object_format: str) -> NewObject:
    data = encode_tree(entries, object_format)
    return NewObject(name, "tree", data, hash_object("tree", data, object_format))


def new_commit(name: str, commit: Commit, object_format: str) -> NewObject:
    data = encode_commit(commit)
    return NewObject(name, "commit", data, hash_object("commit", data, object_format))


@dataclass(frozen=True)
class WorktreeStep:
    """Git commands (without `git`) to be run in a worktree, once the refs have moved.

    With `rescue`, what was not recorded in the worktree is kept before. One that `is_removed`
    goes, with all that is in it.
    """

    path: Path
    git_dir: Path
    commands: tuple[tuple[str, ...], ...] = ()
    rescue: Rescue | None = None
    is_removed: bool = False


@dataclass(frozen=True)
class RefPlan:
    """What an operation will do. `objects` are in order: each comes after what it refers to."""

    operation: str  # `rewind`, `fork`, `undo`, …
    run_id: str | None  # None where there are several runs
    reason: str  # the reflog message, one line
    updates: tuple[RefUpdate, ...]
    objects: tuple[NewObject, ...] = ()
    kept: tuple[RefName, ...] = ()  # refs that keep what the others leave behind
    new_run_id: str | None = None
    target: str | None = None
    worktrees: tuple[WorktreeStep, ...] = ()
    directories: tuple[Path, ...] = ()  # that go: of runs that are removed


# What `apply_plan` does, in order; each is told once it is done. All that is seen of a plan is
# made by `refs`, at once; the steps behind it only let go of what no ref names any more.
STEPS = ("rescue", "objects", "refs", "worktree", "directory")


def apply_plan(
    repo: Repo,
    plan: RefPlan,
    identity: Identity,
    moment: datetime,
    *,
    names: Names,
    durable: bool = False,
    at_step: Callable[[str], None] = lambda step: None,
) -> tuple[RefName, ...]:
    """Rescues what worktrees hold, makes the objects, moves the refs in one transaction, then
    sees to worktrees and directories. Returns the refs that rescue something.

    `at_step` hears the name of each of `STEPS` when it is done. Raises `Conflict`, `UserError`,
    `GitFailed` or `OSError`; no ref of the plan has moved then, unless it was a step behind
    `refs` that failed.
    """
    release_stale_keeps(repo)
    remove_packed_lock(repo)
    runs = {names.run_of_ref(update.ref) for update in plan.updates} - {None}
    remove_stale_locks(repo, [root for run in runs for root in names.roots_of(str(run))])
    rescued = []
    for step in plan.worktrees:
        if step.rescue is not None and step.path.is_dir():
            place = repo.at_worktree(step.path, step.git_dir)
            if rescue_worktree(place, names, step.rescue, identity, moment):
                rescued.append(step.rescue.ref)
    at_step("rescue")
    pack = Pack(repo)
    for new in plan.objects:
        pack.add(new.kind, new.data)
    kept = pack.write(durable=durable)
    at_step("objects")
    try:
        move_refs(repo, plan.updates, plan.reason, identity.env(moment))
    finally:
        if kept is not None:
            kept.release()
    at_step("refs")
    for step in plan.worktrees:
        _see_to_worktree(repo, step, identity.env(moment))
    at_step("worktree")
    for directory in plan.directories:
        remove_tree(directory)
    at_step("directory")
    return tuple(rescued)


def _see_to_worktree(repo: Repo, step: WorktreeStep, env: Mapping[str, str]) -> None:
    if step.is_removed:
        remove_worktree(repo, step.path)
    elif step.path.is_dir():
        place = repo.at_worktree(step.path, step.git_dir)
        if step.commands:
            remove_index_lock(place)  # of a command that was killed; ours holds the run
        for command in step.commands:
            place.git(*command, env=env)


def plan_to_json(plan: RefPlan, applied: bool) -> dict[str, Any]:
    """formats.md, section 6."""
    return {
        "format": 1,
        "operation": plan.operation,
        "run_id": plan.run_id,
        "new_run_id": plan.new_run_id,
        "target": plan.target,
        "updates": [
            {"ref": update.ref, "old": update.old, "new": update.new} for update in plan.updates
        ],
        "kept": list(plan.kept),
        "applied": applied,
    }


def plan_script(repo: Repo, plan: RefPlan, identity_env: Mapping[str, str], names: Names) -> str:
    """The plan as a POSIX shell script of plain git, to be run in the repository.

    Whatever it makes is checked against the id that the plan counts on. It moves the refs in one
    transaction, each from its expected old value, and comes to the worktrees after that.
    """
    title = f"{plan.operation} {plan.target or ''}".strip()
    lines = ["#!/bin/sh", f"# {_comment(title)}, as plain git", "set -e"]
    lines += [f"export {key}={shlex.quote(identity_env[key])}" for key in sorted(identity_env)]
    if plan.objects:
        lines += ["", _EXPECT]
    exported = dict(identity_env)
    for new in plan.objects:
        lines += ["", f"# {_comment(new.name)}", *_object_lines(new, exported, repo)]
    if plan.updates:
        lines += ["", *_update_lines(plan, exported, identity_env)]
    for step in plan.worktrees:
        lines += ["", *_worktree_lines(step, repo, names)]
    if plan.directories:
        lines += ["", *_directory_lines(plan.directories, repo)]
    return "\n".join(lines) + "\n"


_EXPECT = """\
expect() {
    read -r made || made=nothing
    [ "$made" = "$1" ] || { echo "fatal: expected $1, made $made" >&2; exit 1; }
}"""


# The repository that the script runs in.
_HERE = 'here=$(cd "$(git rev-parse --git-common-dir)" && pwd -P)'


def _comment(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)


def _object_lines(new: NewObject, exported: dict[str, str], repo: Repo) -> Iterator[str]:
    """The command that makes an object, and the lines that it reads."""
    if new.kind == "commit":
        commit = decode_commit(new.data)
        idents = _ident_env(commit)
        if idents is not None and len(commit.parents) <= _MANY_PARENTS:
            for key, value in idents.items():
                if exported.get(key) != value:
                    exported[key] = value
                    yield f"export {key}={shlex.quote(value)}"
            parents = "".join(f" -p {parent}" for parent in commit.parents)
            command = f"git -c i18n.commitEncoding=UTF-8 commit-tree {commit.tree}{parents} -F -"
            yield from _piped(commit.message.encode(), command, new.oid)
            return
    if new.kind == "tree":
        yield from _tree_lines(new, repo)
        return
    yield from _piped(new.data, f"git hash-object -t {new.kind} -w --stdin", new.oid)


def _ident_env(commit: Commit) -> dict[str, str] | None:
    """The environment in which `git commit-tree` makes this commit; None where it cannot.

    It has no headers of other kinds, and it repairs what is not UTF-8.
    """
    if commit.extra or _BYTES.search(commit.message):
        return None
    found = {}
    for side, line in (("AUTHOR", commit.author), ("COMMITTER", commit.committer)):
        matched = _IDENT.fullmatch(line)
        if matched is None or not _PLAIN_NAME.fullmatch(line):
            return None
        found[f"GIT_{side}_NAME"] = matched[1]
        found[f"GIT_{side}_EMAIL"] = matched[2]
        found[f"GIT_{side}_DATE"] = f"@{matched[3]}"
    return found


def _tree_lines(new: NewObject, repo: Repo) -> Iterator[str]:
    entries = decode_tree(new.data, repo.object_format)
    listed = [
        (f"{entry.mode.zfill(6)} {entry.kind} {entry.oid}\t".encode() + name)
        for name, entry in entries.items()
    ]
    if all(_PLAIN_NAME.fullmatch(os.fsdecode(name)) for name in entries):
        yield from _piped(b"".join(line + b"\n" for line in listed), "git mktree", new.oid)
    else:
        data = b"".join(line + b"\0" for line in listed)
        yield from _piped(data, "git mktree -z", new.oid)


def _piped(data: bytes, command: str, oid: Oid) -> Iterator[str]:
    """`command`, fed with `data`, its answer compared with `oid`."""
    text = data.decode("utf-8", "surrogateescape")
    if _PLAIN.fullmatch(text):
        word = _delimiter(text)
        yield f"{command} <<'{word}' | expect {oid}"
        yield f"{text}{word}"
    else:
        yield f"printf '{_octal(data)}' | {command} | expect {oid}"


def _delimiter(text: str) -> str:
    """A word that is no line of `text`."""
    lines = set(text.split("\n"))
    number, word = 0, "END"
    while word in lines:
        number += 1
        word = f"END{number}"
    return word


def _octal(data: bytes) -> str:
    """`data` as a format of `printf`, between single quotes."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"%\\'" else f"\\{byte:03o}" for byte in data
    )


def _update_lines(
    plan: RefPlan, exported: Mapping[str, str], identity_env: Mapping[str, str]
) -> Iterator[str]:
    for key in sorted(exported):
        if key not in identity_env:
            yield f"unset {key}"
        elif exported[key] != identity_env[key]:
            yield f"export {key}={shlex.quote(identity_env[key])}"
    yield f"git update-ref --create-reflog -m {shlex.quote(plan.reason)} --stdin <<'END'"
    for update in in_order(plan.updates):
        yield update.line()
    yield "END"


def _rescue_lines(
    step: WorktreeStep, rescue: Rescue, repo: Repo, git: str, names: Names
) -> Iterator[str]:
    """Keeps what is in the worktree: a commit of all of it, made with an index of its own.

    git stores the files of a repository in it, and not a bare link to it, where the index has a
    path in there already.
    """
    place = repo.at_worktree(step.path, step.git_dir)
    marks = [
        shlex.quote(f"100644,{hash_object('blob', b'', repo.object_format)},{nested}.git-wf")
        for nested in nested_repositories(place)
    ]
    path, index = shlex.quote(os.fspath(step.path)), shlex.quote(f"{step.git_dir}/index")
    yield f"    cd {path}"
    yield "    keep=$(mktemp)"
    yield f'    cp -p {index} "$keep"'
    for mark in marks:
        yield f"    GIT_INDEX_FILE=$keep {git} update-index --add --cacheinfo {mark}"
    yield f"    GIT_INDEX_FILE=$keep {git} add -A"
    yield f"    tree=$(GIT_INDEX_FILE=$keep {git} write-tree)"
    yield '    rm -f "$keep"'
    yield f'    if [ "$tree" != "$({git} rev-parse {rescue.parent}^{{tree}})" ]; then'
    text = shlex.quote(rescue.text(names).rstrip("\n"))
    yield f'        made=$({git} commit-tree -p {rescue.parent} -m {text} "$tree")'
    reason = shlex.quote(rescue.reason(names))
    yield f"        {git} update-ref --create-reflog -m {reason} {rescue.ref} \"$made\" ''"
    yield "    fi"


def _worktree_lines(step: WorktreeStep, repo: Repo, names: Names) -> Iterator[str]:
    """Only where the worktree is there and belongs to the repository that the script runs in."""
    path, common = shlex.quote(os.fspath(step.path)), shlex.quote(os.fspath(repo.common_dir))
    yield _HERE
    yield f'if [ -d {path} ] && [ "$here" = {common} ]; then'
    place = ["git", "--git-dir", os.fspath(step.git_dir), "--work-tree", os.fspath(step.path)]
    if step.rescue is not None:
        yield from _rescue_lines(step, step.rescue, repo, shlex.join(place), names)
    for command in step.commands:
        yield f"    (cd {path} && {shlex.join([*place, *command])})"
    if step.is_removed:
        yield '    cd "$here"'
        yield f"    git worktree unlock {path} 2>/dev/null || :"
        yield f"    git worktree remove --force --force {path}"
    yield "fi"


def _directory_lines(directories: Iterable[Path], repo: Repo) -> Iterator[str]:
    yield _HERE
    yield f'if [ "$here" = {shlex.quote(os.fspath(repo.common_dir))} ]; then'
    for path in directories:
        yield f"    rm -rf {shlex.quote(os.fspath(path))}"
    yield "fi"
