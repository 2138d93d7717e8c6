"""`git wf push`: the refs of a run go to a remote together.

The metadata ref only moves forward, so it tells what the remote knows: where its tip is in the past
of ours, all that is there is known here, and nothing is lost by moving the other refs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.names import Oid, RefName, RunId
from git_wf.core.run_config import read_run_config
from git_wf.core.secret_rules import Finding, find_secrets
from git_wf.errors import Conflict, UserError
from git_wf.ops.change import refuse_archived
from git_wf.ops.live import declared_secrets
from git_wf.ops.project import Project
from git_wf.ops.remotes import Far, far_runs, is_kept_tip, local_tips, remember_remote, split_words
from git_wf.ops.select import find_run
from git_wf.store.refs import RefUpdate
from git_wf.store.remote import Refusal, Remote, contains, new_objects

_AT_ONCE = 64  # objects that are read together
NOTHING = Far({}, is_hosted=False)


class SecretsFound(UserError):
    """Nothing was pushed; `findings` say where."""

    def __init__(self, findings: Sequence[Finding], hint: Sequence[str]) -> None:
        many = "a secret" if len(findings) == 1 else f"{len(findings)} secrets"
        super().__init__(f"{many} found in what would leave this machine", hint=hint)
        self.findings = tuple(findings)


@dataclass(frozen=True)
class Pushed:
    run_id: RunId
    remote: str
    updates: tuple[RefUpdate, ...]  # by the names that the remote has
    left: tuple[RefName, ...]  # of ended sections, which the remote does not let go
    is_hosted: bool

    def to_json(self) -> dict[str, Any]:
        updates = [{"ref": one.ref, "old": one.old, "new": one.new} for one in self.updates]
        return {"run_id": self.run_id, "updates": updates, "left": list(self.left)}


@dataclass(frozen=True)
class _Sending:
    run: RunId
    tips: Mapping[RefName, Oid]
    far: Far


def push(
    project: Project, words: Sequence[str], *, every: bool = False, scan: bool = True
) -> Iterator[Pushed]:
    """Each run as it has been pushed. What would fail is found before anything moves.

    Raises `Conflict` where a run went on elsewhere, `SecretsFound`, and `UserError` where the
    remote cannot be reached or refuses.
    """
    remote, named = split_words(project, words)
    known = project.store.refs()
    if every:
        runs = [run for run in known.open if run not in known.others]
    else:
        chosen = [find_run(project, word, known) for word in (named or (None,))]
        for refs in chosen:
            refuse_archived(refs)
        runs = list(dict.fromkeys(refs.run_id for refs in chosen))
    yield from push_runs(project, remote, runs, scan=scan)


def push_runs(
    project: Project, remote: Remote, runs: Sequence[RunId], *, scan: bool = True
) -> Iterator[Pushed]:
    there = far_runs(project, remote, runs)
    sending = [_Sending(run, local_tips(project, run), there.get(run, NOTHING)) for run in runs]
    for one in sending:
        _refuse_unknown(project, remote, one)
    if scan:
        _refuse_secrets(project, sending)
    for one in sending:
        done = _push_run(project, remote, one)
        remember_remote(project, remote, one.run)
        yield done


def _refuse_unknown(project: Project, remote: Remote, one: _Sending) -> None:
    """Raises where the remote has something of the run that is not known here."""
    names, run = project.settings.names, one.run
    meta = names.meta_ref(run)
    for ref in (meta, names.run_branch(run)):
        if ref not in one.tips:
            raise UserError(
                f"run {run} has no ref '{ref}': it cannot be pushed",
                hint=f"git wf verify {run}",
            )
    for ref, tip in one.far.tips.items():
        if is_kept_tip(names, ref):
            continue
        # The metadata goes on from there; the others may have been left behind since.
        roots = (meta,) if ref == meta else names.roots_of(run)
        if one.tips.get(ref) != tip and not contains(project.repo, roots, tip):
            raise Conflict(
                f"run {run} went on elsewhere: '{remote.name}' has '{ref}' at {tip[:12]}, "
                "which is not known here",
                hint=[
                    f"git wf fetch {remote.name} {run} brings it",
                    f"git wf fork {run}, to push what is here as a run of its own",
                ],
            )


def _refuse_secrets(project: Project, sending: Sequence[_Sending]) -> None:
    findings: list[Finding] = []
    for one in sending:
        findings += scan_run(project, one.run, one.tips, list(one.far.tips.values()))
    refuse_findings(findings, "git wf push --no-scan, where it is none")


def refuse_findings(findings: Iterable[Finding], otherwise: str) -> None:
    found = sorted(set(findings))
    if found:
        without = "git wf fork RUN CHECKPOINT, of before it was recorded, leaves it out"
        raise SecretsFound(found, hint=[without, otherwise])


def scan_run(
    project: Project, run: RunId, tips: Mapping[RefName, Oid], known: Sequence[Oid]
) -> Iterator[Finding]:
    """What in the files and states of a run looks like a secret, beside what `known` have."""
    names = project.settings.names
    declared = _declared(project, run)
    meta = names.meta_ref(run)
    states = [tip for ref, tip in tips.items() if ref == meta or ref.endswith("/meta")]
    files = [tip for tip in tips.values() if tip not in states]
    for told, some in ((names.short_branch(run), files), (meta, states)):
        yield from scan_objects(project, told, some, known, declared)


def scan_objects(
    project: Project,
    told: str,
    tips: Sequence[Oid],
    known: Sequence[Oid],
    declared: Sequence[str],
) -> Iterator[Finding]:
    """What in the new objects of `tips` looks like a secret: files, and messages of commits."""
    new = new_objects(project.repo, tips, known)
    paths = dict(new)
    oids = list(paths)
    for start in range(0, len(oids), _AT_ONCE):
        part = project.store.reader.read_many(oids[start : start + _AT_ONCE])
        for oid, (kind, data) in part.items():
            if kind == "blob":
                yield from find_secrets(f"{told}:{paths[oid]}", data, declared)
            elif kind == "commit":
                message = data.partition(b"\n\n")[2]
                yield from find_secrets(f"{told}: message of {oid[:12]}", message, declared)


def _declared(project: Project, run: RunId) -> tuple[str, ...]:
    refs = project.store.run_refs(run)
    assert refs is not None, run
    stored = project.store.load(refs)
    config = read_run_config(stored.record.get("config") or {}, "run.json: config")
    return declared_secrets(config, project.host.env, project.settings)


def _push_run(project: Project, remote: Remote, one: _Sending) -> Pushed:
    names = project.settings.names
    updates, gone = _updates(project, one)
    hosted = one.far.is_hosted
    sent = _renamed(project, updates, hosted)
    try:
        remote.push(sent)
    except Refusal as refused:
        if refused.is_about_history:
            raise _rewound(remote, one.run) from refused
        if hosted or all(names.hosted_ref(update.ref) == update.ref for update in updates):
            raise _refused(remote, one.run, refused) from refused
        sent, hosted = _renamed(project, updates, True), True
        try:
            remote.push(sent)
        except Refusal as again:
            raise _refused(remote, one.run, again) from refused
    left = _let_go(remote, _renamed(project, gone, hosted))
    gone_there = [update for update in _renamed(project, gone, hosted) if update.ref not in left]
    return Pushed(one.run, remote.name, (*sent, *gone_there), left, hosted)


def _updates(project: Project, one: _Sending) -> tuple[list[RefUpdate], list[RefUpdate]]:
    """What moves, and the branches of ended sections that go: the metadata has them in its past."""
    names, far = project.settings.names, one.far.tips
    moves = [
        RefUpdate(ref, tip, far.get(ref))
        for ref, tip in one.tips.items()
        if far.get(ref) != tip and not (ref in far and is_kept_tip(names, ref))
    ]
    branches = f"{names.par_root}/"
    gone = [
        RefUpdate(ref, None, tip)
        for ref, tip in far.items()
        if ref.startswith(branches) and ref not in one.tips
    ]
    return moves, gone


def _renamed(
    project: Project, updates: Sequence[RefUpdate], is_hosted: bool
) -> tuple[RefUpdate, ...]:
    if not is_hosted:
        return tuple(updates)
    hosted = project.settings.names.hosted_ref
    return tuple(RefUpdate(hosted(one.ref), one.new, one.old) for one in updates)


def _let_go(remote: Remote, gone: Sequence[RefUpdate]) -> tuple[RefName, ...]:
    try:
        remote.push(gone)
    except Refusal:
        return tuple(update.ref for update in gone)
    return ()


def _rewound(remote: Remote, run: RunId) -> UserError:
    return UserError(
        f"run {run} was rewound, and '{remote.name}' lets no branch go back",
        hint=f"git wf fork {run}, then git wf push {remote.name} of the fork",
    )


def _refused(remote: Remote, run: RunId, refusal: Refusal) -> UserError:
    ref = next(iter(refusal.reasons))
    return UserError(
        f"'{remote.name}' refuses run {run}: '{ref}': {refusal.why}",
        hint=f"git wf export {run} -o FILE writes it to a file",
    )
