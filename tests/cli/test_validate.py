from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import Program

GOOD = """\
digraph G {
start [shape=Mdiamond]
exit [shape=Msquare]
a [script=":"]
start -> a -> exit
}
"""
NO_PARSE = """\
digraph G {
  start [shape=Mdiamond]
\ta [script="x"
}
"""
UNREACHED = GOOD.replace("a [", 'lost [script=":"]\na [')


@pytest.fixture
def place(wf: Program, tmp_path: Path) -> Path:
    """Outside any repository: nothing is needed but the files."""
    where = tmp_path / "files"
    where.mkdir()
    wf.cwd = where
    (where / "good.dot").write_text(GOOD)
    (where / "bad.dot").write_text(NO_PARSE)
    (where / "lost.dot").write_text(UNREACHED)
    return where


LOST = """\
lost.dot:4:1: warning: no way leads from the start to 'lost' (reachability)
  4 | lost [script=":"]
    | ^
"""


def test_files_that_are_good(wf: Program, place: Path) -> None:
    result = wf.ok("validate", "good.dot", "lost.dot")
    assert result.err == ""
    assert result.out.startswith("good.dot: valid, 3 nodes, 2 edges\n" + LOST)
    assert result.out.endswith("lost.dot: valid, 4 nodes, 2 edges\n")


def test_strict(wf: Program, place: Path) -> None:
    result = wf("validate", "--strict", "lost.dot")
    assert (result.status, result.err) == (1, "")
    assert result.out.startswith(LOST.replace("warning", "error"))
    assert result.out.endswith("lost.dot: not valid\n")
    wf.ok("validate", "--strict", "good.dot")


def test_what_does_not_parse(wf: Program, place: Path) -> None:
    """Line, column, the line itself with a caret."""
    result = wf("validate", "bad.dot", "good.dot")
    assert (result.status, result.err) == (1, "")
    head, line, caret, *rest = result.out.splitlines()
    assert head.startswith("bad.dot:4:1: error: ") and head.endswith(" (syntax)")
    assert (line, caret) == ("  4 | }", "    | ^")
    assert rest[-2:] == ["bad.dot: not valid", "good.dot: valid, 3 nodes, 2 edges"]
    ran = wf("run", "--in-place", "bad.dot")
    assert ran.status == 128 and ran.err.splitlines()[:3] == [head, line, caret]


def test_the_json_object(wf: Program, place: Path) -> None:
    result = wf("validate", "--json", "bad.dot", "lost.dot")
    assert (result.status, result.err) == (1, "")
    bad, lost = result.json["files"]
    assert result.json["format"] == 1 and list(result.json) == ["format", "files"]
    (found,) = bad.pop("diagnostics")
    assert bad == {"file": "bad.dot", "valid": False, "nodes": 0, "edges": 0}
    assert {key: found[key] for key in ("rule", "severity", "line", "column", "node", "edge")} == {
        "rule": "syntax", "severity": "error", "line": 4, "column": 1, "node": None, "edge": None,
    }  # fmt: skip
    assert set(found) == {
        "rule", "severity", "message", "line", "column", "node", "edge", "fix",
    }  # fmt: skip
    assert lost["diagnostics"][0] == {
        "rule": "reachability",
        "severity": "warning",
        "message": "no way leads from the start to 'lost'",
        "line": 4,
        "column": 1,
        "node": "lost",
        "edge": None,
        "fix": None,
    }
    assert {key: lost[key] for key in ("file", "valid", "nodes", "edges")} == {
        "file": "lost.dot", "valid": True, "nodes": 4, "edges": 2,
    }  # fmt: skip


def test_for_github(wf: Program, place: Path) -> None:
    odd = place / "a,b:c%.dot"
    odd.write_text(UNREACHED)
    result = wf.ok("validate", "--format", "github", odd.name, "good.dot")
    assert result.out.splitlines()[0] == (
        "::warning file=a%2Cb%3Ac%25.dot,title=reachability,line=4,col=1"
        "::no way leads from the start to 'lost'"
    )
    assert "good.dot" not in result.out


RUN_TOML = [
    ('[run]\ngaol = "x"\n', "unknown key 'run.gaol'", "did you mean 'run.goal'?"),
    ("[workflow]\n", "no workflow is named", '[workflow] graph = "workflow.dot"'),
    ('[workflow]\ngraph = "nothing.dot"\n', "no file 'nothing.dot'", "ls . lists what is there"),
    ("_version = 2\n", "'_version' 2 is not known", "upgrade git-wf; this one knows _version = 1"),
    (
        "[run\n",
        "expected ']' at the end of a table declaration (at line 1, column 5)",
        'a line is key = "text", key = 1 or key = ["a", "b"], or begins a [table]',
    ),
]


@pytest.mark.parametrize(("text", "told", "fix"), RUN_TOML)
def test_a_run_config(wf: Program, place: Path, text: str, told: str, fix: str | None) -> None:
    (place / "run.toml").write_text(text)
    (found,) = wf("validate", "--json", "run.toml").json["files"][0]["diagnostics"]
    assert (found["rule"], found["message"], found["fix"]) == ("run_config", told, fix)
    mending = f"  fix: {fix}\n" if fix else ""
    result = wf("validate", "run.toml")
    assert (result.status, result.out, result.err) == (
        1,
        f"run.toml: error: {told} (run_config)\n{mending}run.toml: not valid\n",
        "",
    )


def test_a_good_run_config(wf: Program, place: Path) -> None:
    (place / "run.toml").write_text('[workflow]\ngraph = "good.dot"\n')
    assert wf.ok("validate", "run.toml").out == "run.toml: valid, 3 nodes, 2 edges\n"


def test_what_cannot_be_read(wf: Program, place: Path) -> None:
    (place / "latin.dot").write_bytes(b"digraph G {\n \xe9 }\n")
    result = wf("validate", "nothing.dot", ".", "latin.dot", "od\x1bd.dot")
    assert (result.status, result.err) == (1, "")
    assert result.out == (
        "nothing.dot: error: no file 'nothing.dot' (run_config)\n  fix: ls . lists what is there\n"
        "nothing.dot: not valid\n"
        ".: error: '.' is a directory (run_config)\n"
        "  fix: name the workflow file or the run.toml in it\n.: not valid\n"
        "latin.dot:2:2: error: not UTF-8 (syntax)\n  2 |  \ufffd }\n    |  ^\n"
        "latin.dot: not valid\n"
        "odd.dot: error: no file 'odd.dot' (run_config)\n  fix: ls . lists what is there\n"
        "odd.dot: not valid\n"
    )


def test_backends(wf: Program, place: Path) -> None:
    (place / "agent.dot").write_text(GOOD.replace('script=":"', 'prompt="do it"'))
    (place / "run.toml").write_text(
        '[workflow]\ngraph = "agent.dot"\n[agents]\ndefault = "me"\n'
        '[agents.me]\ncommand = ["no-such-program"]\n'
    )
    wf.ok("validate", "run.toml")
    result = wf("validate", "--backends", "--json", "run.toml")
    assert result.status == 1
    (found,) = result.json["files"][0]["diagnostics"]
    assert (found["rule"], found["severity"]) == ("backend_missing", "error")
    assert "no-such-program" in found["message"]
    (place / "run.toml").write_text(
        '[workflow]\ngraph = "agent.dot"\n[agents]\ndefault = "me"\n'
        '[agents.me]\ncommand = ["cat"]\n'
    )
    wf.ok("validate", "--backends", "run.toml")
