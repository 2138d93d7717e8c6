"""While a run goes on: its claim at the remote is renewed, and its checkpoints are pushed.

A run has a remote where it was pushed to one or fetched from one (`branch.<run branch>.remote`, as
git itself keeps it), or where its config asks for pushing (`[run.push] remote`). One thread does
both, so that neither is ever part of the run's success.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from git_wf.core.claim import EXPIRES, RENEWED
from git_wf.core.names import RunId
from git_wf.errors import Conflict, UserError, WfError
from git_wf.ops.claim import HeldClaim, take_claim
from git_wf.ops.journal import Event
from git_wf.ops.project import Project, open_project
from git_wf.ops.push import push_runs
from git_wf.ops.remotes import remote_of_run
from git_wf.store.remote import Refusal, Remote

_AGAIN = 15.0  # seconds to the next try of a push that failed


class Stop(Protocol):
    def set(self) -> None: ...


class Sharing:
    """Of a run that has no remote: nothing."""

    def hear(
        self, listen: Callable[[Event], None], notice: Callable[[str, str], None]
    ) -> Callable[[Event], None]:
        """A listener that also learns of checkpoints, and tells what went wrong meanwhile."""
        return listen

    def end(self) -> tuple[str, ...]:
        """Once the run has ended: the last push, and the release of the claim. What is to be told
        after the run."""
        return ()


class RemoteSharing(Sharing):
    """A claim that is held, by a thread that ends with `end`."""

    def __init__(self, held: HeldClaim, run: RunId, *, is_pushed: bool, cancel: Stop) -> None:
        self._held, self._run, self._is_pushed, self._cancel = held, run, is_pushed, cancel
        self._wake, self._over = threading.Event(), threading.Event()
        self._is_ended = False
        self._is_new = False  # what is recorded is not at the remote
        self._told: list[tuple[str, str]] = []
        self._renewed = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="sharing", daemon=True)
        self._thread.start()

    def hear(
        self, listen: Callable[[Event], None], notice: Callable[[str, str], None]
    ) -> Callable[[Event], None]:
        def heard(event: Event) -> None:
            listen(event)
            if event["event"] == "checkpoint_saved":
                self._is_new = True
                self._wake.set()
            while self._told:
                notice(*self._told.pop(0))

        return heard

    def end(self) -> tuple[str, ...]:
        if self._is_ended:
            return ()
        self._is_ended = True
        self._over.set()
        self._wake.set()
        self._thread.join()
        left = [text for _, text in self._told]
        if self._is_pushed:
            self._is_new = True
            failed = self._push()
            if failed:
                name = self._held.remote.name
                left = [
                    f"run {self._run} is not at '{name}': {failed}; git wf push {name} {self._run}"
                ]
        with contextlib.suppress(WfError, Refusal):
            self._held.release()  # where it cannot be, it expires
        return tuple(left)

    def _work(self) -> None:
        wait = RENEWED
        while not self._over.is_set():
            self._wake.wait(wait)
            self._wake.clear()
            if self._over.is_set():
                return
            wait = RENEWED
            if self._is_pushed and self._is_new:
                failed = self._push()
                if failed:
                    self._tell("push", f"not pushed yet: {failed}")
                    wait = _AGAIN
            if time.monotonic() - self._renewed >= RENEWED - 1:
                self._renew()

    def _push(self) -> str:
        """What kept it from being pushed, if anything."""
        self._is_new = False
        project = open_project(self._held.project.host)
        try:
            remote = Remote(project.repo, self._held.remote.name)
            for _ in push_runs(project, remote, [self._run]):
                continue
        except WfError as err:
            self._is_new = True
            return err.message
        finally:
            project.close()
        return ""

    def _renew(self) -> None:
        try:
            self._held.renew()
            self._renewed = time.monotonic()
        except Conflict as err:
            self._lose(err.message)
        except (WfError, Refusal) as err:
            if time.monotonic() - self._renewed > EXPIRES - 2 * RENEWED:
                self._lose(str(err))  # by now others may take it over

    def _lose(self, why: str) -> None:
        self._tell("claim", f"the claim on the run is lost: {why}")
        self._over.set()
        self._cancel.set()

    def _tell(self, code: str, text: str) -> None:
        if (code, text) not in self._told:
            self._told.append((code, text))


def require_remote(project: Project, run: RunId, name: str | None) -> None:
    """Raises `UserError` where a remote that is to be pushed to cannot be reached."""
    if name is not None:
        try:
            Remote(project.repo, name).refs(project.settings.names.claim_ref(run))
        except UserError as err:
            raise _unreachable(err, _WITHOUT_PUSH) from err


_WITHOUT_PUSH = "leave 'run.push.remote' out of the run config"


def _unreachable(err: UserError, otherwise: str) -> UserError:
    return UserError(err.message, hint=[*err.hints, otherwise])


@contextlib.contextmanager
def shared(
    project: Project, run: RunId, pushed_to: str | None, cancel: Stop, *, is_claimed: bool = True
) -> Iterator[Sharing]:
    """Inside, the run is claimed at its remote; nothing where it has none.

    Raises `Conflict` where it is going on elsewhere, and `UserError` where the remote cannot be
    reached or refuses: before anything has begun.
    """
    name = pushed_to or remote_of_run(project, run)
    if name is None or not is_claimed:
        yield Sharing()
        return
    try:
        held = take_claim(project, Remote(project.repo, name), run)
    except UserError as err:
        without = f"git wf resume --no-claim {run}, if no other machine goes on with it"
        raise _unreachable(err, _WITHOUT_PUSH if pushed_to is not None else without) from err
    except Refusal as err:
        raise Conflict(
            f"'{name}' takes no claim on run {run}: {err.why}",
            hint=f"git wf resume --no-claim {run}, if no other machine goes on with it",
        ) from err
    sharing = RemoteSharing(held, run, is_pushed=pushed_to is not None, cancel=cancel)
    try:
        yield sharing
    finally:
        sharing.end()
