"""House rules that a reader would otherwise have to watch over. Each says how to comply."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tree import ROOT, tree_files

PACKAGE = ROOT / "git_wf"
TESTS = ROOT / "tests"

# What a test may replace: things of the world outside, never git, GitPython or subprocess. Limits
# (names in upper case) may be lowered.
REPLACEABLE = {"clock", "draw", "isatty", "new_id", "randomness", "which", "stdin", "stdout"}
# Tests in which time has to pass, and why.
SLEEPERS: dict[str, str] = {}
# Names that stand for no host: they are reserved for examples, or are this machine itself.
NO_HOSTS = re.compile(r"(.+\.)?(example\.(com|org|net)|example|test|invalid|localhost)")
URL = re.compile(r"\b(?:https?|ssh|git)://(?:[^\s/@\"'<>]*@)?([A-Za-z0-9][A-Za-z0-9.-]*)")
# Directories in which somebody's own files are; `/home/user` and the like are examples.
MACHINE_PATH = re.compile(
    r"(?<![\w.*~}$)>-])/(?:root|work|opt|mnt|Users|home/(?!user\b|ada\b)\w+)/\w"
)
UNFINISHED = re.compile(
    r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b|NotImplemented" r"Error|pragma: no" r" cover"
)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each line; none where the file is not text."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        yield f"{path.relative_to(ROOT)}:{number}", line


def python_files(directory: Path) -> list[Path]:
    return [path for path in tree_files() if path.suffix == ".py" and directory in path.parents]


def nodes(directory: Path) -> Iterator[tuple[str, ast.AST]]:
    for path in python_files(directory):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node


def called(node: ast.AST) -> str:
    """The name behind the last dot of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def report(broken: list[str], advice: str) -> None:
    if broken:
        pytest.fail(f"{advice}:\n" + "\n".join(broken), pytrace=False)


def test_no_mocks() -> None:
    broken = []
    for place, node in nodes(TESTS):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            if any(re.search(r"\bmock\b", name) for name in names):
                broken.append(f"{place}: imports mock")
        elif called(node) == "setattr" and isinstance(node, ast.Call) and len(node.args) > 1:
            words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            name = str(words[0]).rpartition(".")[2] if words else ""
            if name not in REPLACEABLE and not name.isupper():
                broken.append(f"{place}: replaces '{name or ast.unparse(node)}'")
    report(
        broken,
        "run the real thing (a real repository, a real script first on PATH), hand in what varies "
        "(clock, ids), or add a name to REPLACEABLE in tests/test_house_rules.py",
    )


def test_no_sleep_in_tests() -> None:
    broken = [
        place
        for place, node in nodes(TESTS)
        if called(node) == "sleep" and place.partition(":")[0] not in SLEEPERS
    ]
    report(
        broken,
        "wait for the thing itself (a file, a line of output, the end of a process), or add the "
        "file to SLEEPERS in tests/test_house_rules.py with the reason",
    )


def test_no_hosts() -> None:
    broken = [
        f"{place}: {host}"
        for path in tree_files()
        for place, line in lines_of(path)
        for host in URL.findall(line)
        if not NO_HOSTS.fullmatch(host.rstrip(".")) and not re.fullmatch(r"127\.[\d.]+", host)
    ]
    report(broken, "the tree names no host: say it in words, or use example.org")


def test_no_paths_of_a_machine() -> None:
    broken = [
        f"{place}: {found[0]}"
        for path in tree_files()
        for place, line in lines_of(path)
        for found in MACHINE_PATH.finditer(line)
    ]
    report(broken, "the tree names no place of one machine: use a temporary or a relative path")


def test_nothing_unfinished() -> None:
    broken = [
        f"{place}: {found[0]}"
        for path in tree_files()
        for place, line in lines_of(path)
        for found in UNFINISHED.finditer(line)
    ]
    report(broken, "finish it, or leave it out and file an issue")


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Catches everything, and does not raise it again."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {ast.unparse(kind) if kind else "everything" for kind in kinds}
    last = handler.body[-1]
    again = isinstance(last, ast.Raise) and last.exc is None
    return bool(names & {"Exception", "BaseException", "everything"}) and not again


# Where everything is caught: our own end, and the code of other packages.
BOUNDARIES = ("git_wf/checkpoints.py", "git_wf/cli/main.py", "git_wf/engine/handlers.py")


def test_one_broad_except() -> None:
    broad = [
        place
        for place, node in nodes(PACKAGE)
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]
    files = [place.partition(":")[0] for place in broad]
    elsewhere = [place for place in broad if place.partition(":")[0] not in BOUNDARIES]
    twice = [place for place in broad if files.count(place.partition(":")[0]) > 1]
    report(
        elsewhere + twice,
        "only a boundary catches everything, in one place of its file: name the errors that are "
        "expected here",
    )


# There is nothing to do about it.
WITHOUT_HINT = ("nothing to {verb}{where}",)


def test_errors_say_what_helps() -> None:
    broken = [
        f"{place}: {ast.unparse(node)}"
        for place, node in nodes(PACKAGE)
        if called(node) == "UserError"
        and isinstance(node, ast.Call)
        and not any(keyword.arg == "hint" for keyword in node.keywords)
        and not any(words in ast.unparse(node) for words in WITHOUT_HINT)
    ]
    report(
        broken,
        "the user can put it right: hint= with the next command, or the right form (or, where "
        "there is none, the words in WITHOUT_HINT)",
    )


def test_only_cli_prints() -> None:
    broken = [
        place
        for place, node in nodes(PACKAGE)
        if (
            called(node) == "print"
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
        )
        and not place.startswith("git_wf/cli/")
    ]
    report(broken, "only git_wf/cli prints: return the value, or tell the listener")


def test_only_cli_exits() -> None:
    exits = ("sys.exit", "os._exit", "exit", "quit")
    broken = [
        place
        for place, node in nodes(PACKAGE)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in exits
        if not place.startswith("git_wf/cli/")
    ]
    report(broken, "only git_wf/cli ends the program: raise a WfError with the status")


def test_names_without_meaning() -> None:
    vague = {"utils", "util", "helpers", "manager", "service", "base", "common_utils", "misc"}
    broken = [str(path.relative_to(ROOT)) for path in python_files(PACKAGE) if path.stem in vague]
    report(broken, "name a module after what it is about")
