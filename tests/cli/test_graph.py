from __future__ import annotations

import os
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.judge import untouched
from tests.program import Program, run_id, write_workflow

BODY = 'a [script="true"] start -> a -> exit'
TEXT = "G\n● start  start\n  └→ a\n● a      command\n  └→ exit\n● exit   exit\n"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    return write_workflow(tmp_path / "w.dot", BODY)


@pytest.fixture
def without_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH with git on it, and nothing else."""
    only = tmp_path / "only"
    only.mkdir()
    (only / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", os.fspath(only))


def test_a_file_in_plain_text(wf: Program, workflow: Path, tmp_path: Path) -> None:
    with untouched(tmp_path):
        result = wf.ok("graph", workflow, "--format", "text", cwd=tmp_path)  # in no repository
    assert (result.out, result.err) == (TEXT, "")


def test_without_graphviz(wf: Program, workflow: Path, without_dot: None) -> None:
    assert wf.ok("graph", workflow).out == TEXT
    wf.fails(
        128, ["graph", str(workflow), "--format", "svg"],
        "error: Graphviz is not installed: there is no 'dot'\n"
        "hint: install graphviz\n"
        "hint: git wf graph --format text draws without it\n",
    )  # fmt: skip


@needs_dot
def test_pictures(wf: Program, workflow: Path, tmp_path: Path) -> None:
    assert ElementTree.fromstring(wf.ok("graph", workflow).out).tag.endswith("}svg")
    for words in (["-o", "g.svg"], ["-o", "g.png"], ["-o", "h", "--format", "png"]):
        result = wf.ok("graph", workflow, *words, cwd=tmp_path)
        assert (result.out, result.err) == ("", "")
    assert (tmp_path / "g.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "h").read_bytes().startswith(b"\x89PNG")
    wf.ok("graph", workflow, "-o", "g.txt", cwd=tmp_path)
    assert (tmp_path / "g.txt").read_text() == TEXT


@needs_dot
def test_what_only_a_workflow_may_say(wf: Program, tmp_path: Path) -> None:
    """Dotted keys, durations and bare words; and nothing that Graphviz would obey."""
    secret = tmp_path / "secret.svg"
    secret.write_text("<svg/>")
    body = (
        "h [shape=hexagon, human.default_choice=a, timeout=15m, fidelity=summary:high, "
        f'image="{secret}", URL="https://example.org", label="a\\b \\N &lt;"] start -> h h -> exit '
        '[label="[A] \\"ok\\""]'
    )
    out = wf.ok("graph", write_workflow(tmp_path / "w.dot", body)).out
    texts = [one.text for one in ElementTree.fromstring(out).iter() if one.tag.endswith("}text")]
    assert r"a\b \N &lt;" in texts and '[A] "ok"' in texts
    assert "secret" not in out and "https://example.org" not in out


def test_a_run(loop: LoopRun) -> None:
    text = loop.wf.ok("graph", "--format", "text").out
    assert text == (
        "G\n"
        "● start  start    success\n"
        "  └→ plan\n"
        "● plan   command  success ×2 0ms\n"
        "  └→ work\n"
        "● work   command  success ×2 0ms\n"
        "  └→ check\n"
        "● check  command  success ×2 0ms\n"
        "  ├→ exit  if outcome=success\n"
        "  └↺ plan  if outcome=fail\n"
        "● exit   exit     success\n"
    )
    loop.wf.ok("rewind", "check@1")
    text = loop.wf.ok("graph", loop.run[:-2], "--format", "text").out
    assert "● plan   command  interrupted ×1 0ms\n" in text
    assert "● check  command  fail ×1 0ms\n" in text
    assert "● exit   exit\n" in text
    loop.wf.ok("rewind", "@0")
    assert "● start  start    interrupted\n" in loop.wf.ok("graph", "--format", "text").out


@needs_dot
def test_a_run_in_colours(loop: LoopRun) -> None:
    loop.wf.ok("rewind", "check@1")
    root = ElementTree.fromstring(loop.wf.ok("graph", "--format", "svg").out)
    shapes = [one for one in root.iter() if one.tag.rsplit("}")[-1] in ("polygon", "ellipse")]
    colours = [one.get("fill") for one in shapes]
    assert colours.count("#ffcdd2") >= 1 and colours.count("#c8e6c9") >= 2


def test_json(loop: LoopRun) -> None:
    told = loop.wf.ok("graph", "--json").json
    assert (told["format"], told["run_id"], told["name"]) == (1, loop.run, "G")
    runs = {node["id"]: node["run"] for node in told["nodes"]}
    assert runs["check"] == {"status": "success", "visits": 2, "duration_ms": 0}
    assert len(told["edges"]) == 5


def test_a_run_that_waits(wf: Program, repo: Path, tmp_path: Path) -> None:
    body = 'a [script="true"] h [shape=hexagon] start -> a -> h h -> exit [label="Go"]'
    assert wf("run", write_workflow(tmp_path / "w.dot", body)).status == 3
    assert "● h      human    waiting\n" in wf.ok("graph", "--format", "text").out


def test_branches(wf: Program, repo: Path, tmp_path: Path) -> None:
    body = """f [shape=component] j [shape=tripleoctagon] x [script="true"] y [script="exit 1"]
start -> f f -> x f -> y x -> j y -> j j -> exit"""
    wf("run", write_workflow(tmp_path / "w.dot", body))
    told = wf.ok("graph", "--format", "text").out
    assert "● f      parallel  partial_success ×1 0ms\n" in told
    assert "● x      command   success ×1 0ms\n" in told
    assert "● y      command   fail ×1 0ms\n" in told


def test_in_a_bare_clone(loop: LoopRun, bare: Path) -> None:
    assert "● plan " in loop.wf.ok("graph", "--format", "text", cwd=bare).out


def test_what_is_refused(loop: LoopRun, tmp_path: Path, repo: Path) -> None:
    wf = loop.wf
    wf.fails(128, ["graph", "no.dot"], "error: no file 'no.dot'\nhint: ls . lists what is there\n")
    wf.fails(128, ["graph", "nope"], "error: no run matches 'nope'\nhint: git wf runs lists them\n")
    wf.fails(
        129, ["graph", "-o", "x.pdf"],
        "error: 'x.pdf' says no form: name it .svg, .png or .txt, or --format\n"
        "hint: git wf graph -h\n",
    )  # fmt: skip
    wf.fails(
        128, ["graph", "-o", "no/x.txt"],
        "error: cannot write 'no/x.txt': No such file or directory\n"
        "hint: -o FILE names another file; without it stdout is written\n",
    )  # fmt: skip
    (tmp_path / "bad.dot").write_text("digraph {")
    result = wf("graph", tmp_path / "bad.dot")
    assert (result.status, result.out) == (128, "")
    loop.replace_metadata("graph.dot", None)
    wf.fails(
        128, ["graph", run_id(1)], f"fatal: run {run_id(1)} has no graph.dot in its metadata\n"
    )
    assert git("status", "--porcelain", cwd=repo) == ""
