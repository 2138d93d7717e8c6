from pathlib import Path

from tests.conftest import git
from tests.program import Program, run_id, write_workflow


def test_a_run_is_recorded_and_told(wf: Program, repo: Path, tmp_path: Path) -> None:
    workflow = write_workflow(
        tmp_path / "two.dot",
        'a [script="echo 1 >>log"] b [script="echo 2 >>log"] start -> a -> b -> exit',
    )
    result = wf.ok("run", workflow)
    run = run_id(1)
    assert result.out == f"{run}\n"
    base = git("rev-parse", "--short=9", "HEAD", cwd=repo)
    assert result.err == (
        f"run {run} started on branch wf/run/{run}, from {base}\n"
        "  a@1 success 0ms\n"
        "  b@1 success 0ms\n"
        "success (0ms)\n"
        f"branch:       wf/run/{run}\n"
        f"look at it:   git wf log {run}\n"
        f"              git diff main...wf/run/{run}\n"
        f"take it over: git merge --squash wf/run/{run}\n"
    )
    assert git("log", "--format=%s", f"wf/run/{run}", cwd=repo) == (
        f"wf({run}): b (success)\nwf({run}): a (success)\nfirst"
    )
    assert git("show", f"wf/run/{run}:log", cwd=repo) == "1\n2"
    assert git("status", "--porcelain", cwd=repo) == ""
