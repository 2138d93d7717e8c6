"""The claim on a run at its remote: one machine at a time goes on with it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from git_wf.core.names import RunId
from git_wf.errors import Conflict, StateUnreadable
from git_wf.ops.claim import HeldClaim, take_claim
from git_wf.ops.host import Host
from git_wf.ops.project import Project, open_project
from git_wf.store.remote import Remote
from tests.conftest import git
from tests.program import FakeClock, Program, run_id, write_workflow

CHAIN = 'a [script="date >a"] b [script="date >b"] start -> a -> b -> exit'


@pytest.fixture
def origin(wf: Program, repo: Path, tmp_path: Path) -> Path:
    """A remote that has a run, which has one node to go."""
    path = tmp_path / "origin.git"
    git("init", "-q", "--bare", str(path), cwd=tmp_path)
    git("remote", "add", "origin", f"file://{path}", cwd=repo)
    git("push", "-q", "origin", "main", cwd=repo)
    wf.ok("run", write_workflow(tmp_path / "chain.dot", CHAIN))
    wf.ok("rewind", "a")
    wf.ok("push")
    return path


@pytest.fixture
def other(wf: Program, origin: Path, tmp_path: Path) -> Path:
    git("clone", "-q", f"file://{origin}", "other", cwd=tmp_path)
    wf.ok("fetch", cwd=tmp_path / "other")
    return tmp_path / "other"


OPEN: list[Project] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def opened(place: Path, ahead: float = 0) -> tuple[Project, FakeClock]:
    """The clone, on a machine whose clock is `ahead` seconds ahead."""
    clock = FakeClock()
    clock.advance(ahead)
    OPEN.append(open_project(Host(place, dict(os.environ), clock)))
    return OPEN[-1], clock


def take(project: Project) -> HeldClaim:
    return take_claim(project, Remote(project.repo, "origin"), RunId(run_id(1)))


def claims(origin: Path) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/wf/claim", cwd=origin).splitlines()


def race(places: tuple[Path, Path]) -> list[HeldClaim]:
    """Both clones at once; those that got the claim."""
    start = threading.Barrier(2)
    projects = {place: opened(place)[0] for place in places}
    held: list[HeldClaim] = []
    refused: list[Conflict] = []

    def run(place: Path) -> None:
        start.wait()
        try:
            held.append(take(projects[place]))
        except Conflict as err:
            refused.append(err)

    threads = [threading.Thread(target=run, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) + len(refused) == 2
    return held


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_two_clones_race(repo: Path, origin: Path, other: Path, rounds: int) -> None:
    refs = "refs/heads", "refs/wf/meta", "refs/wf/old"
    before = git("for-each-ref", *refs, cwd=origin)
    for _ in range(rounds):
        (winner,) = race((repo, other))
        assert claims(origin) == [f"refs/wf/claim/{run_id(1)}"]
        winner.release()
        assert claims(origin) == []
        assert git("for-each-ref", *refs, cwd=origin) == before
    for place in (repo, other):
        assert git("for-each-ref", "refs/wf/incoming", cwd=place) == ""


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_dead_machine_is_taken_over(repo: Path, origin: Path, other: Path, ahead: float) -> None:
    """After ten minutes in which the remote held the same claim, whatever the clocks say."""
    first = take(opened(repo)[0])
    project, clock = opened(other, ahead)
    with pytest.raises(Conflict, match="is going on elsewhere: process"):
        take(project)
    clock.advance(599)
    with pytest.raises(Conflict, match="is going on elsewhere"):
        take(project)
    clock.advance(2)
    second = take(project)
    with pytest.raises(Conflict, match="was moved"):
        first.renew()
    with pytest.raises(Conflict, match="was moved"):
        first.release()
    second.renew()
    second.release()
    assert claims(origin) == []


def test_a_renewed_claim_is_not_taken_over(repo: Path, origin: Path, other: Path) -> None:
    holding, holder_clock = opened(repo)
    held = take(holding)
    project, clock = opened(other)
    for _ in range(3):
        with pytest.raises(Conflict):
            take(project)
        clock.advance(400)
        holder_clock.advance(60)
        held.renew()


def test_the_same_clone_takes_over_at_once(repo: Path, origin: Path) -> None:
    """Whoever asks holds the run's lock there."""
    take(opened(repo)[0])
    take(opened(repo)[0]).release()
    assert claims(origin) == []


def test_where_nothing_goes(repo: Path, origin: Path, other: Path) -> None:
    hook = origin / "hooks" / "update"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\ncase $3 in 000000*) exit 1;; esac\n")
    hook.chmod(0o755)
    take(opened(repo)[0]).release()
    assert len(claims(origin)) == 1
    take(opened(other)[0]).release()


def test_a_host_that_takes_branches_only(repo: Path, origin: Path, other: Path) -> None:
    git("config", "transfer.hideRefs", "refs/wf", cwd=origin)
    held = take(opened(repo)[0])
    ref = f"refs/heads/wf/claim/{run_id(1)}"
    assert held.ref == ref
    assert git("for-each-ref", "--format=%(refname)", ref, cwd=origin) == ref
    with pytest.raises(Conflict, match="is going on elsewhere"):
        take(opened(other)[0])
    held.release()


def test_a_stranger_at_the_place_of_the_claim(repo: Path, origin: Path) -> None:
    git("push", "-q", "origin", f"main:refs/wf/claim/{run_id(1)}", cwd=repo)
    with pytest.raises(StateUnreadable, match="is no claim"):
        take(opened(repo)[0])


def test_what_went_on_there_is_fetched_first(
    wf: Program, repo: Path, origin: Path, other: Path
) -> None:
    wf.ok("resume", cwd=other)
    wf.ok("push", cwd=other)
    result = wf("resume")
    assert (result.status, result.err) == (
        128,
        f"fatal: run {run_id(1)} went on at 'origin'\n"
        f"hint: git wf fetch origin {run_id(1)} && git wf resume {run_id(1)}\n",
    )
    assert claims(origin) == []


def test_resume_is_refused_while_it_goes_on_elsewhere(
    wf: Program, repo: Path, origin: Path, other: Path
) -> None:
    held = take(opened(other)[0])
    before = git("for-each-ref", cwd=repo)
    result = wf("resume")
    assert result.status == 128
    assert f"fatal: run {run_id(1)} is going on elsewhere: {held.claim.holder}" in result.err
    assert git("for-each-ref", cwd=repo) == before
    held.release()
    wf.ok("resume")
    assert claims(origin) == []


def test_without_the_remote(wf: Program, repo: Path, origin: Path) -> None:
    origin.rename(origin.with_name("gone.git"))
    result = wf("resume")
    assert result.status == 128 and f"hint: git wf resume --no-claim {run_id(1)}" in result.err
    wf.ok("resume", "--no-claim")


def test_a_branch_that_tracks_one_of_this_repository(wf: Program, repo: Path, origin: Path) -> None:
    origin.rename(origin.with_name("gone.git"))
    git("config", f"branch.wf/run/{run_id(1)}.remote", ".", cwd=repo)
    wf.ok("resume")


def test_a_claim_tells_who(repo: Path, origin: Path) -> None:
    held = take(opened(repo)[0])
    told = git("log", "-1", "--format=%B", f"refs/wf/claim/{run_id(1)}", cwd=origin)
    tip = git("rev-parse", f"wf/run/{run_id(1)}", cwd=repo)
    assert f'"run_tip": "{tip}"' in told and f'"process": {os.getpid()}' in told
    assert replace(held.claim, is_released=True).message().startswith("release ")
