"""Taking, renewing and releasing the claim on a run at a remote: each a compare-and-swap there."""

from __future__ import annotations

import json
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from git_wf.core.claim import EXPIRES, Claim, read_claim
from git_wf.core.clock import rfc3339
from git_wf.core.names import Oid, RefName, RunId, operation_id
from git_wf.errors import Conflict
from git_wf.ops.project import Project
from git_wf.ops.remotes import far_runs
from git_wf.store.files import make_directory, write_atomic
from git_wf.store.refs import RefUpdate, move_refs, read_ref
from git_wf.store.remote import Refusal, Remote, contains, empty_commit


@dataclass
class HeldClaim:
    """A claim of ours, as the remote holds it."""

    project: Project
    remote: Remote
    claim: Claim
    ref: RefName
    oid: Oid

    def renew(self) -> None:
        """Raises `Conflict` where somebody else took it over, `UserError` without a connection."""
        self._replace(replace(self.claim, time=_now(self.project)))

    def release(self) -> None:
        """The claim goes; where the remote lets nothing go, it says that it is released."""
        try:
            self.remote.push([RefUpdate(self.ref, None, self.oid)])
        except Refusal:
            self._replace(replace(self.claim, time=_now(self.project), is_released=True))

    def _replace(self, claim: Claim) -> None:
        new = empty_commit(self.project.repo, claim.message(), self.project.identity.env())
        self.remote.push([RefUpdate(self.ref, new, self.oid)])
        self.claim, self.oid = claim, new


def take_claim(project: Project, remote: Remote, run: RunId) -> HeldClaim:
    """Raises `Conflict` where another machine goes on with the run, or went on with it since."""
    names = project.settings.names
    plain = names.claim_ref(run)
    there = remote.refs(plain, names.hosted_ref(plain))  # where it cannot be reached, none is made
    tip = read_ref(project.repo, names.run_branch(run))
    claim = Claim(
        run, socket.gethostname(), os.getpid(), _claimant(project), tip or "", _now(project)
    )
    new = empty_commit(project.repo, claim.message(), project.identity.env())
    ref = next(iter(there), plain)
    old = there.get(ref)
    if old is not None:
        _refuse_held(project, remote, run, ref, old)
    try:
        remote.push([RefUpdate(ref, new, old)])
    except Refusal:
        if ref != plain or old is not None:
            raise
        ref = names.hosted_ref(plain)
        remote.push([RefUpdate(ref, new, None)])
    held = HeldClaim(project, remote, claim, ref, new)
    try:
        _refuse_behind(project, remote, run)
    except BaseException:
        held.release()
        raise
    return held


def _refuse_behind(project: Project, remote: Remote, run: RunId) -> None:
    """Whoever had the claim before may have gone on."""
    far = far_runs(project, remote, [run]).get(run)
    meta = project.settings.names.meta_ref(run)
    tip = far.tips.get(meta) if far else None
    if tip is not None and not contains(project.repo, [meta], tip):
        raise Conflict(
            f"run {run} went on at '{remote.name}'",
            hint=f"git wf fetch {remote.name} {run} && git wf resume {run}",
        )


def _refuse_held(project: Project, remote: Remote, run: RunId, ref: RefName, oid: Oid) -> None:
    claim = _read(project, remote, ref, oid)
    if claim.is_released or claim.claimant == _claimant(project):
        return  # of a process that was killed: we hold the run's lock in the same clone
    since = _seen_since(project, run, oid)
    until = since + timedelta(seconds=EXPIRES)
    if project.host.clock.now() >= until:
        return
    raise Conflict(
        f"run {run} is going on elsewhere: {claim.holder} has the claim on it at '{remote.name}'",
        hint=[
            f"git wf fetch {remote.name} {run}, once it has ended there",
            f"git wf resume {run} after {until:%H:%M:%S} takes it over, if it is dead there",
        ],
    )


def _read(project: Project, remote: Remote, ref: RefName, oid: Oid) -> Claim:
    names, moment = project.settings.names, project.clock.now()
    operation = operation_id(int(moment.timestamp() * 1000), "claim", oid, str(os.getpid()))
    held = names.incoming_ref(operation, 0)
    remote.fetch({ref: held})
    project.store.close()  # its reader does not know the pack that came
    got = read_ref(project.repo, held)
    try:
        message = project.store.reader.read_commit(got or oid).message
    finally:
        if got is not None:
            reason = f"{names.namespace}: claim"
            move_refs(project.repo, [RefUpdate(held, None, got)], reason, project.identity.env())
    if got != oid:
        raise Conflict(
            f"run {ref.rpartition('/')[2]} is going on elsewhere: its claim at '{remote.name}' "
            "is being renewed",
            hint="git wf fetch, once it has ended there",
        )
    return read_claim(message, ref)


def _seen_since(project: Project, run: RunId, oid: Oid) -> datetime:
    """Since when this very claim has been seen here, by our own clock."""
    path = project.state_dir / "claims" / f"{run}.json"
    now = project.host.clock.now()
    with suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads(path.read_text())
        since = datetime.fromisoformat(told["since"])
        if told["claim"] == oid and since <= now:
            return since
    make_directory(path.parent)
    write_atomic(path, json.dumps({"claim": oid, "since": now.isoformat()}).encode())
    return now


def _claimant(project: Project) -> str:
    """A name of this clone on this machine, that no other has."""
    path = project.repo.common_dir / "git-wf" / "claimant"
    if not path.is_file():
        make_directory(path.parent)
        write_atomic(path, uuid.uuid4().hex.encode())
    return f"{path.read_text().strip()}-{project.repo.key}-{_machine()}"


def _machine() -> str:
    with suppress(OSError):
        return Path("/etc/machine-id").read_text().strip()
    return socket.gethostname()


def _now(project: Project) -> str:
    return rfc3339(project.host.clock.now())
