"""The installer, run for real: an empty HOME, nothing on PATH but git, Python and file commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from git_wf import __version__
from tests.tree import ROOT, tree_files

# One worker for all of them: they share one installation.
pytestmark = pytest.mark.xdist_group("install")

FILE_COMMANDS = (
    "cat", "cp", "diff", "dirname", "env", "ln", "mkdir", "mv", "readlink", "rm", "rmdir", "sed",
    "sh", "uname",
)  # fmt: skip
SHELL_SCRIPTS = ("install.sh", "examples/demo.sh", ".ci/run", "completions/git-wf.bash")
# What pip needs to reach its index here: settings by environment, and the user's own file.
PIP_FILE = Path.home() / ".config" / "pip" / "pip.conf"
REACH = {
    key: value
    for key, value in os.environ.items()
    if key.startswith(("PIP_", "SSL_", "REQUESTS_")) or key.lower().endswith("_proxy")
} | ({"PIP_CONFIG_FILE": os.fspath(PIP_FILE)} if PIP_FILE.is_file() else {})


@dataclass
class Machine:
    """A machine as a newcomer has it: a checkout, an empty home, a PATH with little on it."""

    checkout: Path
    home: Path
    bin: Path
    env: dict[str, str]

    def install(
        self, *args: str, shell: str = "sh", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the installer from the home directory."""
        return self.run(shell, os.fspath(self.checkout / "install.sh"), *args, env=env)

    def run(
        self, *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [shutil.which(command[0]) or command[0], *command[1:]],
            env={**self.env, **(env or {})}, cwd=cwd or self.home,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def add(self, name: str, script: str) -> Path:
        """A program of ours, first on PATH."""
        program = self.bin / name
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program


def listing(top: Path) -> list[str]:
    """Everything below `top` but the inside of the environment; links with where they lead."""
    found = []
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if "/git-wf/venv/" not in f"/{name}":
            found.append(f"{name} -> {os.readlink(path)}" if path.is_symlink() else name)
    return found


def make_machine(top: Path, cache: Path) -> Machine:
    checkout, home, bin_dir = top / "a clone", top / "home of ada", top / "bin"
    for path in tree_files():
        copy = checkout / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    home.mkdir()
    bin_dir.mkdir()
    for name in (*FILE_COMMANDS, "git"):
        found = shutil.which(name)
        assert found is not None, name
        (bin_dir / name).symlink_to(found)
    (bin_dir / "python3").symlink_to(os.path.realpath(sys.executable))
    env = {**REACH, "PIP_CACHE_DIR": os.fspath(cache), "PATH": os.fspath(bin_dir)}
    return Machine(checkout, home, bin_dir, {**env, "HOME": os.fspath(home)})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pip's, so that what is downloaded once is not again; outside of the homes."""
    return tmp_path_factory.mktemp("pip")


@pytest.fixture
def machine(tmp_path: Path, cache: Path) -> Machine:
    return make_machine(tmp_path, cache)


@dataclass
class Installed:
    machine: Machine
    checkout_before: list[str]
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Installed:
    machine = make_machine(tmp_path_factory.mktemp("installed"), cache)
    before = listing(machine.checkout)
    return Installed(machine, before, machine.install(shell="dash" if which("dash") else "sh"))


def which(name: str) -> bool:
    return shutil.which(name) is not None


def told(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


# --- one installation ----------------------------------------------------------------------------


def test_it_says_what_it_does(installed: Installed) -> None:
    local = installed.machine.home / ".local"
    assert told(installed.done) == (
        0,
        f"""\
making a Python environment in '{local}/share/git-wf/venv'
installing git-wf
git-wf {__version__} is installed: {local}/bin/git-wf

'{local}/bin' is not on your PATH: git does not find the command yet.
Add this line to ~/.profile and log in anew:
    export PATH="{local}/bin:$PATH"
""",
        "",
    )


def test_it_makes_links_and_nothing_else(installed: Installed) -> None:
    share = f"{installed.machine.home}/.local/share/git-wf/venv/share"
    assert listing(installed.machine.home) == [
        ".local",
        ".local/bin",
        f".local/bin/git-wf -> {share.removesuffix('/share')}/bin/git-wf",
        ".local/share",
        ".local/share/bash-completion",
        ".local/share/bash-completion/completions",
        ".local/share/bash-completion/completions/git-wf"
        f" -> {share}/bash-completion/completions/git-wf",
        ".local/share/fish",
        ".local/share/fish/vendor_completions.d",
        ".local/share/fish/vendor_completions.d/git-wf.fish"
        f" -> {share}/fish/vendor_completions.d/git-wf.fish",
        ".local/share/fish/vendor_conf.d",
        f".local/share/fish/vendor_conf.d/git-wf.fish -> {share}/fish/vendor_conf.d/git-wf.fish",
        ".local/share/git-wf",
        ".local/share/git-wf/installed",
        ".local/share/git-wf/venv",
        ".local/share/man",
        ".local/share/man/man1",
        *(
            f".local/share/man/man1/{page.name} -> {share}/man/man1/{page.name}"
            for page in sorted((ROOT / "man").glob("*.1"))
        ),
        ".local/share/zsh",
        ".local/share/zsh/site-functions",
        f".local/share/zsh/site-functions/_git-wf -> {share}/zsh/site-functions/_git-wf",
    ]
    for path in installed.machine.home.rglob("*"):
        assert path.exists(), f"{path} leads nowhere"
    assert listing(installed.machine.checkout) == installed.checkout_before


def test_git_finds_the_command(installed: Installed) -> None:
    machine = installed.machine
    path = f"{machine.home}/.local/bin:{machine.bin}"
    done = machine.run("git", "wf", "--version", env={"PATH": path})
    assert told(done) == (0, f"git-wf {__version__}\n", "")


def test_a_second_time_changes_nothing(installed: Installed) -> None:
    machine = installed.machine
    before = listing(machine.home)
    record = machine.home / ".local/share/git-wf/installed"
    recorded = record.read_text()
    path = f"{machine.home}/.local/bin:{machine.bin}"
    done = machine.install(env={"PATH": path, "SHELL": "/bin/zsh"})
    assert told(done) == (
        0,
        f"""\
installing git-wf
git-wf {__version__} is installed: {machine.home}/.local/bin/git-wf

For completion, zsh needs this line in ~/.zshrc, before compinit:
    fpath=('{machine.home}/.local/share/zsh/site-functions' $fpath)
""",
        "",
    )
    assert listing(machine.home) == before
    assert record.read_text() == recorded


def test_the_first_command_of_the_readme(installed: Installed) -> None:
    """Installs, makes a repository, runs the main job in it, and says what to try next."""
    machine = installed.machine
    done = machine.run("sh", "-c", f"cd '{machine.checkout}' && {readme_command('--demo')}")
    assert done.returncode == 0, done.stdout + done.stderr
    demo = machine.checkout / "git-wf-demo"
    timeline, _, rest = done.stdout.partition("$ git --no-pager wf log ")[2].partition("\nThree ")
    visits = re.findall(r"^@\d+ +(\S+) +(\w+)", timeline, re.MULTILINE)
    assert visits == [
        ("plan@1", "success"),
        ("build@1", "success"),
        ("test@1", "fail"),
        ("fix@1", "success"),
        ("test@2", "success"),
        ("document@1", "success"),
    ]
    commands = re.findall(r"^    (git .*?) +# ", rest, re.MULTILINE)
    assert len(commands) == 3
    path = f"{machine.home}/.local/bin:{machine.bin}"
    for command in commands:
        tried = machine.run("sh", "-c", command, env={"PATH": path}, cwd=demo)
        assert tried.returncode == 0, command + tried.stdout + tried.stderr
    status = machine.run("git", "status", "--porcelain", cwd=demo)
    assert told(status) == (0, "", "")


def test_uninstall_leaves_no_trace(machine: Machine) -> None:
    """Below a prefix in which others have files, too."""
    tools = machine.home / "my tools"
    (tools / "share" / "man" / "man1").mkdir(parents=True)
    (tools / "share" / "man" / "man1" / "other.1").write_text("not ours\n")
    before = listing(machine.home)
    done = machine.install("--prefix", "my tools/")
    assert done.returncode == 0, done.stderr
    assert f"is installed: {tools}/bin/git-wf\n" in done.stdout
    assert (tools / "share/man/man1/git-wf.1").is_symlink()
    # A page of an older version, and one that its owner replaced by something else.
    (tools / "bin" / "mine").write_text("not ours\n")
    (tools / "share/zsh/site-functions/_git-wf").unlink()
    (tools / "share/zsh/site-functions/_git-wf").write_text("not ours any more\n")
    done = machine.install("--uninstall", f"--prefix={tools}")
    assert told(done) == (0, "git-wf is removed; repositories keep their runs\n", "")
    (tools / "bin" / "mine").unlink()
    (tools / "bin").rmdir()
    shutil.rmtree(tools / "share" / "zsh")
    assert listing(machine.home) == before
    done = machine.install("--uninstall", f"--prefix={tools}")
    nothing = f"nothing to remove: there is no git-wf of this installer in '{tools}'\n"
    assert told(done) == (0, nothing, "")


def test_dev_runs_from_the_checkout(machine: Machine) -> None:
    done = machine.install("--dev")
    assert done.returncode == 0, done.stderr
    page = machine.home / ".local/share/man/man1/git-wf.1"
    assert page.resolve() == (machine.checkout / "man" / "git-wf.1").resolve()
    module = machine.checkout / "git_wf" / "__init__.py"
    module.write_text(module.read_text().replace(__version__, "7.6.5"))
    command = os.fspath(machine.home / ".local/bin/git-wf")
    assert told(machine.run(command, "--version")) == (0, "git-wf 7.6.5\n", "")
    assert machine.run(f"{machine.home}/.local/share/git-wf/venv/bin/pytest", "--version").stdout
    assert machine.install("--uninstall").returncode == 0
    assert listing(machine.home) == []


# --- refusals: one clear line, and nothing half-made ---------------------------------------------

REAL = os.path.realpath(sys.executable)
VERSION = "{}.{}".format(*sys.version_info)


def refused(machine: Machine, done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of a refusal, after which nothing may be left."""
    assert done.returncode == 1
    assert listing(machine.home) == []
    return done.stderr.splitlines()


def test_a_python_without_venv(machine: Machine) -> None:
    """As Debian has it: the module is there, what it needs is not."""
    fake = machine.add(
        "python3", f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec {REAL} "$@"'
    )  # fmt: skip
    lines = refused(machine, machine.install())
    assert (
        lines[0] == f"error: Python {VERSION} at '{fake}' has no venv module with pip (ensurepip)"
    )
    assert lines[-1] == "hint: or let another tool keep the environment: --pipx, --uv"
    assert all(line.startswith("hint: ") for line in lines[1:])


def test_a_venv_module_that_breaks(machine: Machine) -> None:
    fake = machine.add(
        "python3",
        'case "$*" in *" venv "*) mkdir -p "$5/lib"; echo "Error: no luck" >&2; exit 1 ;; esac\n'
        f'exec {REAL} "$@"',
    )
    lines = refused(machine, machine.install())
    assert lines[0] == f"error: Python at '{fake}' cannot make an environment: no luck"
    assert lines[-1] == "hint: call this again with --verbose to see all that was said"
    assert len(lines) == 3


def test_a_python_that_is_too_old(machine: Machine) -> None:
    fake = machine.add("python3", 'case "$*" in *version_info*) echo 3.8 ;; *) exit 1 ;; esac')
    lines = refused(machine, machine.install())
    assert lines[0] == f"error: Python 3.8 at '{fake}' is too old: git-wf needs 3.10 or newer"
    assert len(lines) == 3


def test_another_python_that_fits_is_taken(machine: Machine) -> None:
    machine.add("python3", 'case "$*" in *version_info*) echo 3.8 ;; *) exit 1 ;; esac')
    machine.add(
        "python3.12", f'case "$*" in *version_info*) echo 3.12 ;; *) exec {REAL} "$@" ;; esac'
    )
    machine.add("python3.11", "exit 1")
    done = machine.install(env={"PIP_NO_INDEX": "1"})  # as far as it gets without packages
    assert done.stdout.splitlines()[-1] == "installing git-wf"


def test_no_python(machine: Machine) -> None:
    (machine.bin / "python3").unlink()
    lines = refused(machine, machine.install())
    assert lines[0] == "error: Python 3.10 or newer is not installed"
    assert len(lines) == 2


def test_a_python_of_ones_own(machine: Machine) -> None:
    lines = refused(machine, machine.install(env={"PYTHON": "no such thing"}))
    assert lines == ["error: PYTHON='no such thing' is not a Python that can be run"]


def test_no_git(machine: Machine) -> None:
    (machine.bin / "git").unlink()
    lines = refused(machine, machine.install())
    assert lines == ["error: git is not installed", "hint: git-wf needs git 2.38 or newer"]


def test_packages_that_cannot_be_had(machine: Machine) -> None:
    lines = refused(machine, machine.install(env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}))
    assert lines[0].startswith("error: pip could not install git-wf: Could not find a version ")
    assert lines[1:] == ["hint: call this again with --verbose to see all that was said"]


def test_no_home(machine: Machine) -> None:
    lines = refused(machine, machine.install(env={"HOME": ""}))
    assert lines == [
        "error: HOME is not set",
        "hint: name a place: sh install.sh --prefix DIR",
    ]


@pytest.mark.parametrize("place", ["bin/git-wf", "share/man/man1/git-wf.1"])
def test_a_file_of_somebody_else(machine: Machine, place: str) -> None:
    theirs = machine.home / ".local" / place
    theirs.parent.mkdir(parents=True)
    theirs.write_text("not ours\n")
    before = listing(machine.home)
    assert told(machine.install()) == (
        1,
        "",
        f"error: '{theirs}' is there already and does not come from this installer\n"
        "hint: move it away, or choose another place with --prefix DIR\n",
    )
    assert listing(machine.home) == before
    machine.install("--uninstall")
    assert listing(machine.home) == before


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--frobnicate"], "error: unknown argument '--frobnicate'\nhint: sh install.sh --help\n"),
        (["--prefix"], "error: --prefix needs a directory\n"),
        (
            ["--dev", "--uv"],
            "error: --dev goes with the private environment, not with --uv\n",
        ),
        (
            ["--pipx"],
            "error: pipx is not installed\nhint: sh install.sh without --pipx needs only Python\n",
        ),
    ],
)
def test_wrong_command_lines(machine: Machine, args: list[str], error: str) -> None:
    assert told(machine.install(*args)) == (1, "", error)
    assert listing(machine.home) == []


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "zsh", "busybox"])
def test_help_in_every_shell(machine: Machine, shell: str) -> None:
    if not which(shell):
        pytest.skip(f"{shell} is not installed")
    script = os.fspath(machine.checkout / "install.sh")
    command = [shell, "sh", script] if shell == "busybox" else [shell, script]
    done = machine.run(*command, "-h")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: sh install.sh [options]\n")


# --- pipx and uv: programs that do what those are documented to do, and nothing else -------------

PIPX = """
echo "pipx $*" >>"$HOME/calls"
env=$HOME/pipx/git-wf
case $1 in
environment) [ "$*" = "environment --value PIPX_LOCAL_VENVS" ] && echo "$HOME/pipx" ;;
install) SHARE ;;
uninstall) rm -rf "$HOME/pipx" "$PIPX_BIN_DIR/git-wf" ;;
esac
"""
UV = """
echo "uv $*" >>"$HOME/calls"
env=$HOME/uv/git-wf
case "$1 $2" in
"tool dir") echo "$HOME/uv" ;;
"tool install") SHARE ;;
"tool uninstall") rm -rf "$HOME/uv" "$UV_TOOL_BIN_DIR/git-wf" ;;
esac
"""
SHARE = """
    mkdir -p "$env/bin" "$env/share/man/man1" "$env/share/bash-completion/completions" \\
        "$env/share/fish/vendor_completions.d" "$env/share/fish/vendor_conf.d" \\
        "$env/share/zsh/site-functions"
    printf '#!/bin/sh\\necho git-wf 1.2.3\\n' >"$env/bin/git-wf"
    chmod +x "$env/bin/git-wf"
    ln -sf "$env/bin/git-wf" "${PIPX_BIN_DIR:-$UV_TOOL_BIN_DIR}/git-wf"
    : >"$env/share/man/man1/git-wf.1"
    : >"$env/share/bash-completion/completions/git-wf"
    : >"$env/share/fish/vendor_completions.d/git-wf.fish"
    : >"$env/share/fish/vendor_conf.d/git-wf.fish"
    : >"$env/share/zsh/site-functions/_git-wf"
"""


@pytest.mark.parametrize(
    ("tool", "script", "calls"),
    [
        ("pipx", PIPX, ["pipx install --force {here}", "pipx uninstall git-wf"]),
        (
            "uv",
            UV,
            [
                "uv tool install --force --reinstall-package git-wf {here}",
                "uv tool uninstall git-wf",
            ],
        ),
    ],
)
def test_another_keeper_of_the_environment(
    machine: Machine, tool: str, script: str, calls: list[str]
) -> None:
    machine.add(tool, script.replace("SHARE", SHARE))
    (machine.bin / "chmod").symlink_to(shutil.which("chmod") or "chmod")
    (machine.bin / "python3").unlink()
    for _ in range(2):
        done = machine.install(f"--{tool}")
        assert done.returncode == 0, done.stderr
        assert "git-wf 1.2.3 is installed: " in done.stdout
    pages = machine.home / ".local/share/man/man1/git-wf.1"
    assert os.readlink(pages) == f"{machine.home}/{tool}/git-wf/share/man/man1/git-wf.1"
    assert machine.install("--uninstall").returncode == 0
    said = (machine.home / "calls").read_text().splitlines()
    (machine.home / "calls").unlink()
    assert listing(machine.home) == []
    wanted = [call.format(here=machine.checkout) for call in calls]
    assert [call for call in said if "install" in call] == [wanted[0], *wanted]


def test_a_program_that_does_not_start(machine: Machine) -> None:
    script = PIPX.replace("SHARE", SHARE).replace("echo git-wf 1.2.3", "echo broken; exit 1")
    machine.add("pipx", script)
    (machine.bin / "chmod").symlink_to(shutil.which("chmod") or "chmod")
    done = machine.install("--pipx")
    (machine.home / "calls").unlink()
    command = f"{machine.home}/.local/bin/git-wf"
    assert refused(machine, done) == [
        f"error: '{command}' does not start: broken",
        "hint: call this again with --verbose to see all that was said",
    ]


# --- words and files that have to agree ----------------------------------------------------------


def readme_command(option: str) -> str:
    """The command in the README's shell blocks that has this option."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if option in line.split()]
    found = [line for line in lines if line.startswith("sh install.sh")]
    assert len(found) == 1, found
    return found[0]


def test_ci_runs_the_second_command_of_the_readme() -> None:
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == f"{readme_command('--test')} </dev/null"


@pytest.mark.parametrize("script", SHELL_SCRIPTS)
def test_shellcheck_finds_nothing(script: str) -> None:
    checker = Path(sys.executable).with_name("shellcheck")
    command = os.fspath(checker) if checker.is_file() else shutil.which("shellcheck")
    if command is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([command, script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_scripts_may_be_executed() -> None:
    for script in ("install.sh", "examples/demo.sh", ".ci/run"):
        assert os.access(ROOT / script, os.X_OK), script


def test_the_workflows_that_are_shown_are_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"^```dot\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    shown = tmp_path / "shown.dot"
    shown.write_text("".join(blocks))
    files = [shown, *sorted((ROOT / "examples").glob("*/run.toml"))]
    done = subprocess.run(
        [sys.executable, "-m", "git_wf", "validate", "--strict", *files],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
