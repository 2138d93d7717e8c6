"""What push and fetch share: which remote is meant, and what a remote has of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from git_wf.core.names import Names, Oid, RefName, RunId, is_run_id
from git_wf.ops.project import Project
from git_wf.store.refs import list_refs
from git_wf.store.remote import Remote, default_remote, remote_names, set_branch_remote


@dataclass(frozen=True)
class Far:
    """A run as a remote has it: what each of its refs, by its name here, is at."""

    tips: Mapping[RefName, Oid]
    is_hosted: bool  # its state is on branches: the host refuses other refs


def split_words(project: Project, words: Sequence[str]) -> tuple[Remote, list[str]]:
    """`[REMOTE] [RUN…]`: a first word that is a remote, a URL or a path to a repository."""
    repo = project.repo
    if words and words[0] in remote_names(repo):
        return Remote(repo, words[0]), list(words[1:])
    if words and _is_address(project, words[0]):
        return Remote(repo, words[0]), list(words[1:])
    return Remote(repo, default_remote(repo)), list(words)


def _is_address(project: Project, word: str) -> bool:
    """A run is named by its id or its branch, never with a colon or a leading dot or slash."""
    return ":" in word or word.startswith((".", "/")) or (project.host.cwd / word).is_dir()


def remote_of_run(project: Project, run: str) -> str | None:
    """Where a run was pushed to, or fetched from; a `.` stands for this repository."""
    key = f"branch.{project.settings.names.short_branch(run)}.remote"
    name = project.repo.config_values().get(key, ["."])[-1]
    return None if name == "." else name


def remember_remote(project: Project, remote: Remote, run: str) -> None:
    set_branch_remote(project.repo, project.settings.names.short_branch(run), remote.name)


def travelling(names: Names, run: str) -> tuple[str, ...]:
    """Run branch, metadata ref, and the directories of its open parallel branches and of what
    rewinds left behind: an undo finds it wherever the run is."""
    kept = (f"{root}/{run}" for root in (names.par_root, names.old_root))
    return (names.run_branch(run), names.meta_ref(run), *kept)


def is_kept_tip(names: Names, ref: str) -> bool:
    """Whether a ref holds what was left behind: it is made once, and never moves."""
    return ref.startswith(f"{names.old_root}/")


def local_tips(project: Project, run: RunId) -> dict[RefName, Oid]:
    """What of a run goes with it, all of one moment."""
    names = project.settings.names
    before: dict[RefName, Oid] | None = None
    while True:
        tips = list_refs(project.repo, *travelling(names, run))
        if tips == before:
            return tips
        before = tips


def far_runs(project: Project, remote: Remote, runs: Sequence[RunId] | None) -> dict[RunId, Far]:
    """What the remote has of `runs`, else of all that it has."""
    names, wanted = project.settings.names, list(runs) if runs is not None else ["*"]
    patterns: list[str] = []
    for run in wanted:
        branch, meta, *kept = travelling(names, run)
        here = (branch, meta, *(root if run == "*" else f"{root}/*" for root in kept))
        patterns += dict.fromkeys([*here, *(names.hosted_ref(ref) for ref in here)])
    there: dict[RunId, tuple[dict[RefName, Oid], dict[RefName, Oid]]] = {}
    for ref, oid in remote.refs(*patterns).items():
        ours, is_hosted = _named_here(names, ref)
        its_run = _run_of(names, ours)
        if its_run is not None:
            there.setdefault(its_run, ({}, {}))[is_hosted][ours] = oid
    return {run: _far(names.meta_ref(run), *sides) for run, sides in there.items()}


def _named_here(names: Names, ref: RefName) -> tuple[RefName, bool]:
    """The name here of a ref there, and whether it is one of a host that takes branches only."""
    for root in (f"{names.meta_root}/", f"{names.par_root}/", f"{names.old_root}/"):
        hosted = names.hosted_ref(root)
        if ref.startswith(hosted) and hosted != root:
            return RefName(root + ref[len(hosted) :]), True
    return ref, False


def _run_of(names: Names, ref: RefName) -> RunId | None:
    for one in travelling(names, ""):
        root = f"{one.removesuffix('/')}/"
        run = ref[len(root) :].partition("/")[0] if ref.startswith(root) else ""
        if is_run_id(run):
            return RunId(run)
    return None


def _far(meta: RefName, plain: Mapping[RefName, Oid], hosted: Mapping[RefName, Oid]) -> Far:
    # With `wf.metaNamespace` the state is on a branch anyway, and tells nothing of the host.
    is_hosted = bool(hosted) and (meta not in plain or meta.startswith("refs/heads/"))
    return Far({**plain, **hosted} if is_hosted else plain, is_hosted)
