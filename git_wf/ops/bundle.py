"""`git wf export` and `git wf import`: a run as one file, a bundle that plain git reads too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from git_wf.core.names import Oid, RunId
from git_wf.core.secret_rules import Finding
from git_wf.errors import GitFailed, StateUnreadable, UserError
from git_wf.ops.change import refuse_archived
from git_wf.ops.fetch import Fetched, bring
from git_wf.ops.project import Project, require_writing_git
from git_wf.ops.push import refuse_findings, scan_run
from git_wf.ops.remotes import local_tips
from git_wf.ops.select import find_run
from git_wf.ops.verify import verify
from git_wf.store.bundle import missing_commits, write_bundle
from git_wf.store.remote import Remote
from git_wf.store.runs import StoredRun


@dataclass(frozen=True)
class Exported:
    run_id: RunId
    base: Oid | None  # a commit that whoever imports it has to have
    size: int


def export(project: Project, word: str | None, path: Path, *, full: bool, scan: bool) -> Exported:
    """Writes a run to a file, without the commits that it began from unless `full`.

    Raises `UserError` where the file cannot be written, `SecretsFound`, and `StateUnreadable` where
    the run is not whole; then there is no file, or the one that was there before.
    """
    refs = find_run(project, word, project.store.refs())
    refuse_archived(refs)
    run = project.store.load(refs)
    _refuse_broken(project, run.run_id)
    without = [] if full else _without(project, run)
    if scan:
        findings: list[Finding] = []
        findings += scan_run(project, run.run_id, local_tips(project, run.run_id), without)
        refuse_findings(findings, f"git wf export {run.run_id} --no-scan -o FILE, where it is none")
    try:
        size = write_bundle(project.repo, path, lambda: local_tips(project, run.run_id), without)
    except OSError as err:
        why = err.strerror or str(err)
        raise UserError(f"cannot write '{path}': {why}", hint="-o FILE names another") from err
    return Exported(run.run_id, without[0] if without else None, size)


def _without(project: Project, run: StoredRun) -> list[Oid]:
    """The base; where the run has no commits yet, what the base began from: a bundle has no branch
    without a commit."""
    if run.refs.run_tip != run.base:
        return [run.base]
    return list(project.store.reader.read_commit(run.base).parents)


def _refuse_broken(project: Project, run: RunId) -> None:
    for checked in verify(project, [run]):
        if checked.problems:
            raise StateUnreadable(
                f"run {run} is not whole, and cannot be exported", hint=f"git wf verify {run}"
            )


def import_file(project: Project, path: Path) -> Iterator[Fetched]:
    """The runs in a file, each as it has been taken and verified.

    Raises `UserError` where it is no such file, or begins from commits that are not here.
    """
    require_writing_git(project.repo)
    if not path.is_file():
        raise UserError(f"there is no file '{path}'", hint="git wf export RUN -o FILE makes one")
    try:
        missing = missing_commits(project.repo, path)
    except GitFailed as err:
        raise UserError(
            f"'{path}' is no file of runs, or is damaged",
            hint="git wf export RUN -o FILE makes one",
        ) from err
    if missing:
        raise UserError(
            f"'{path}' begins from commit {missing[0][:12]}, which is not here",
            hint=[
                "git fetch brings it, from where the project is",
                "git wf export --full RUN -o FILE",
            ],
        )
    for one in bring(project, Remote(project.repo, str(path)), [], is_pull=False):
        if one.change is not None:
            _refuse_wrong(project, one.run_id)
        yield one


def _refuse_wrong(project: Project, run: RunId) -> None:
    for checked in verify(project, [run]):
        if checked.problems:
            raise StateUnreadable(
                f"run {run} was imported, and is not whole", hint=f"git wf verify {run}"
            )
