from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from git_wf.core.dot import parse
from git_wf.engine import plugins
from git_wf.engine.backends import missing_backends

DOCUMENT = Path(__file__).parents[2] / "docs" / "handlers.md"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package with entry points, as an installer lays it out."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def install_it(module, code, points):
        (site / f"{module}.py").write_text(code)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[git_wf.handlers]\n{points}\n")
        plugins._entry_points.cache_clear()

    yield install_it
    plugins._entry_points.cache_clear()


def test_the_documented_example(play, install, recorder):
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    install("example_package", code, "count_files = example_package:count_files")
    (recorder.work_dir / "one.py").touch()
    (recorder.work_dir / "two.py").touch()
    walked = play('c [type="count_files", pattern="*.py"] start -> c -> exit')
    assert walked.context["files.count"] == 2
    assert walked.recorder.notes == ["one.py, two.py"]
    walked = play('c [type="count_files", pattern="*.rs"] start -> c -> exit')
    assert walked.conclusion.failure_reason == "no file matches '*.rs'"


def test_an_installed_kind_needs_no_backend(install):
    install("other_package", "", "other = other_package:f")
    text = (
        "digraph { start [shape=Mdiamond] exit [shape=Msquare] a [type=other] start -> a -> exit }"
    )
    assert missing_backends(parse(text, "t.dot"), {}, {}) == []
    assert plugins.installed_kinds() == {"other"}


def test_a_kind_that_cannot_be_loaded(play, install):
    install("broken_package", "", "broken = broken_package:gone")
    walked = play("a [type=broken, max_retries=3] start -> a -> exit")
    failure = walked.last.node_outcomes["a"].failure
    assert failure.kind == "configuration"
    assert failure.message.startswith("load the kind 'broken' from 'broken_package:gone': ")


def test_values_that_no_context_can_hold(play, install):
    code = (
        "from git_wf.core.outcome import succeeded\n"
        "def f(visit):\n    return succeeded(context_updates={'n': float('nan')})\n"
    )
    install("nan_package", code, "nan = nan_package:f")
    walked = play("a [type=nan] start -> a -> exit")
    told = "context_updates: NaN and Infinity are not JSON"
    assert walked.conclusion.failure_reason == told


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("raise ZeroDivisionError('x')", "deterministic", "kind 'odd' raised ZeroDivisionError: x"),
        ("return None", "configuration", "kind 'odd' returned no outcome: None"),
        (
            "return Outcome('wow')", "configuration",
            "kind 'odd' returned no outcome: status 'wow'",
        ),
        (
            "return succeeded(context_updates={'a': {1}})", "deterministic",
            "context_updates: set is not JSON",
        ),
        ("raise OSError(2, 'gone')", "transient", "gone"),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_a_kind_fails_its_visit(play, install, code, kind, message):
    head = "from git_wf.core.outcome import Outcome, succeeded\ndef odd(visit):\n    "
    install("odd_package", head + code, "odd = odd_package:odd")
    sys.modules.pop("odd_package", None)
    walked = play("a [type=odd] start -> a -> exit")
    failure = walked.last.node_outcomes["a"].failure
    assert (failure.kind, failure.message) == (kind, message)


def test_values_of_a_kind(play, install):
    code = (
        "from git_wf.core.outcome import succeeded\n"
        "def tell(visit):\n    return succeeded(context_updates={'t': (1, None, True, 'x')})\n"
    )
    install("telling_package", code, "tell = telling_package:tell")
    assert play("a [type=tell] start -> a -> exit").context["t"] == [1, None, True, "x"]
