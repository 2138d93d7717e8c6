"""The built-in backends as programs on PATH: stand-ins that assert what they are given."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.engine.test_backends import COMMANDS, SHORT, STREAMS
from tests.program import Program, run_id, write_workflow

# An agent, one that goes on with its session, and a model without tools.
BODY = """
a [prompt="say it", model=m, reasoning_effort=high, fidelity=full, thread_id=t]
b [prompt="say it", model=m, reasoning_effort=high, fidelity=full, thread_id=t]
p [shape=tab, prompt="say it"]
start -> a -> b -> p -> exit
"""
STAND_IN = """\
#!/bin/sh
line="$(basename "$0") $*"
grep -qxF -- "$line" {expected} || {{ echo "not expected: $line" >&2; exit 9; }}
grep -q 'say it' || {{ echo "no prompt" >&2; exit 8; }}
echo "$line" >>{calls}
cat {output}
"""
SESSIONS = {"claude": "s1", "codex": "t1", "gemini": "g1", "opencode": "o1"}
# What each call reports, three times.
USAGE = {
    "claude": {"cost_usd": 0.75, "input_tokens": 30, "output_tokens": 6},
    "codex": {"input_tokens": 27, "output_tokens": 12},
    "gemini": {"input_tokens": 21, "output_tokens": 9},
    "opencode": {"cost_usd": 2.25, "input_tokens": 33, "output_tokens": 9},
}
PROMPT_ONLY = {
    **SHORT,
    "aider": COMMANDS["aider"].replace(" --model m --reasoning-effort high", " --chat-mode ask"),
}


def commands(name: str) -> list[str]:
    """What the three nodes call."""
    session = r" ((?:--)?(?:resume|session)) s\b"
    first = re.sub(session, "", COMMANDS[name])
    again = re.sub(session, rf" \1 {SESSIONS.get(name)}", COMMANDS[name])
    return [first, again, PROMPT_ONLY[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_calls_it_as_documented(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directory, output = tmp_path / "bin", tmp_path / "output"
    directory.mkdir()
    records: list[Any] = STREAMS[name][0] if name in STREAMS else []
    output.write_text("".join(f"{json.dumps(one)}\n" for one in records) or "it is said\n")
    expected, calls = tmp_path / "expected", tmp_path / "calls"
    expected.write_text("\n".join(commands(name)) + "\n")
    program = directory / name
    program.write_text(STAND_IN.format(expected=expected, calls=calls, output=output))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    write_workflow(tmp_path / "w.dot", BODY)
    config = tmp_path / "run.toml"
    config.write_text(f'[workflow]\ngraph = "w.dot"\n[agents]\ndefault = "{name}"\n')
    wf.ok("run", config)
    assert calls.read_text().splitlines() == commands(name)
    meta = f"wf/meta/{run_id(1)}"
    conclusion = json.loads(git("show", f"{meta}:conclusion.json", cwd=repo))
    assert conclusion["usage"] == USAGE.get(name)
    log = wf.ok("log", "--json").json
    assert len(log["checkpoints"]) == 3
