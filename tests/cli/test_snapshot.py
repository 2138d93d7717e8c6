"""`git wf snapshot` and `git wf undo-edits`, as a person meets them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import git, make_repo
from tests.judge import untouched
from tests.program import Program, Result


def save(wf: Program, message: str, *words: str, cwd: Path | None = None) -> str:
    """The id that a save prints."""
    return wf.ok("snapshot", "save", message, *words, cwd=cwd).out.split()[-1]


def named(text: str, *ids: str) -> str:
    """Output in which the given ids are `ID1`, `ID2`, and other commits and times are not told."""
    for number, one in enumerate(ids, start=1):
        text = re.sub(rf"{one}[0-9a-f]*", f"ID{number}", text)
    return re.sub(r"\b[0-9a-f]{9}\b|\b[0-9a-f]{40}\b", "COMMIT", text)


def told(result: Result, *ids: str) -> str:
    return named(result.out + result.err, *ids)


def test_save_edit_and_undo(wf: Program, repo: Path) -> None:
    first = wf.ok("snapshot", "save", "one")
    one = first.out.split()[-1]
    assert (first.out, first.err) == (f"saved as {one}\n", "")
    (repo / "README").write_text("other\n")
    (repo / "new").write_text("x\n")
    done = wf.ok("undo-edits")
    (kept,) = (one["short_id"] for one in listed(wf) if one["automatic"])
    assert told(done, one, kept) == (
        "restored ID1: one (1 written, 1 removed)\n"
        "hint: git wf snapshot restore ID2 takes that back\n"
    )
    assert (repo / "README").read_text() == "hello\n" and not (repo / "new").exists()
    again = wf.ok("snapshot", "restore", kept)
    assert told(again, one, kept) == (
        "restored ID2: before restore of ID1 (2 written, 0 removed)\n"
        "hint: git wf snapshot restore ID1 takes that back\n"
    )
    assert (repo / "new").read_text() == "x\n"


def listed(wf: Program) -> list[dict[str, object]]:
    found: list[dict[str, object]] = wf.ok("snapshot", "list", "--json").json["snapshots"]
    return found


def test_the_list(wf: Program, repo: Path) -> None:
    assert wf.ok("snapshot", "list").out == ""
    one = save(wf, "one")
    (repo / "a").write_text("1\n2\n")
    two = save(wf, "two | three\nfour", "--step", "7", "--session", "s")
    (repo / "README").unlink()
    wf.ok("snapshot", "restore", "@1")
    rows = [
        line.split("  ") for line in named(wf.ok("snapshot", "list").out, one, two).splitlines()
    ]
    told = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert told == [
        ["@3", "COMMIT", "just now", "1 file +0 -1", "before restore of ID1 (restore)"],
        ["@2", "ID2", "just now", "1 file +2 -0", "two | three four (session s, step 7)"],
        ["*", "@1", "ID1", "just now", "0 files +0 -0", "one"],
    ]
    assert len(wf.ok("snapshot", "list", "-n", "1").out.splitlines()) == 1
    newest = listed(wf)[1]
    assert {key: newest[key] for key in newest if key not in ("id", "short_id")} == {
        "ordinal": 2, "message": "two | three\nfour", "timestamp": "2030-01-02T03:04:07.000000Z",
        "step": 7, "session": "s", "message_count": None, "automatic": False, "made_by": None,
        "left_out": {}, "files_changed": 1, "insertions": 2, "deletions": 0, "is_current": False,
        "notes": ["session s", "step 7"],
    }  # fmt: skip


def test_nothing_has_changed(wf: Program) -> None:
    one = save(wf, "one")
    assert told(wf.ok("snapshot", "save", "two"), one) == "nothing has changed since ID1\n"
    assert save(wf, "two", "--allow-empty") != one
    step = save(wf, "three", "--step", "3")
    assert save(wf, "four", "--step", "3") == step
    assert len(listed(wf)) == 3
    done = wf.ok("snapshot", "save", "two", "--json").json
    assert (done["is_new"], done["short_id"], done["operation"]) == (False, step, "save")


def test_restore_of_a_step_and_of_paths(wf: Program, repo: Path) -> None:
    (repo / "d").mkdir()
    (repo / "d" / "a").write_text("1\n")
    (repo / "b").write_text("1\n")
    one = save(wf, "one", "--step", "1")
    for path in ("d/a", "b", "d/new"):
        (repo / path).write_text("2\n")
    assert told(wf.ok("snapshot", "restore", "last", "--path", "a", cwd=repo / "d"), one) == (
        "restored ID1 in d/a: one (1 written, 0 removed)\n"
        "hint: git wf snapshot restore COMMIT takes that back\n"
    )
    assert [(repo / path).read_text() for path in ("d/a", "b", "d/new")] == ["1\n", "2\n", "2\n"]
    wf.ok("snapshot", "restore", "last", "--path", "d")
    assert not (repo / "d" / "new").exists() and (repo / "b").read_text() == "2\n"
    assert not any(each["is_current"] for each in listed(wf)[1:])
    wf.ok("snapshot", "restore", "--step", "1")
    assert (repo / "b").read_text() == "1\n"
    again = wf.ok("snapshot", "restore", "--step", "1")
    assert told(again, one) == "already at ID1: one\n"


@pytest.mark.parametrize(
    ("words", "status", "err"),
    [
        (["restore", "deadbeef"], 128,
         "error: no snapshot 'deadbeef'\n"
         "hint: git wf snapshot list\n"),
        (["restore", "--quiet"], 129,
         "error: no such option '--quiet'\n"
         "hint: git wf snapshot restore -h\n"),
        (["restore"], 129,
         "error: name a snapshot, or --step N\n"
         "hint: git wf snapshot restore -h\n"),
        (["restore", "last", "--path", "../x"], 128,
         "error: '../x' is outside of 'REPO'\nhint: git wf snapshot restore REF -w FOLDER\n"),
        (["rewind", "9"], 128,
         "error: cannot go back 9: there is only 1\n"
         "hint: git wf snapshot list\n"),
        (["rewind", "0"], 129,
         "error: invalid value for '[N]': 0 is not in the range x>=1\n"
         "hint: git wf snapshot rewind -h\n"),
        (["rewind", "-1"], 129, "error: no such option '-1'\nhint: git wf snapshot rewind -h\n"),
        (["delete", "--all"], 128,
         "error: 1 snapshot not deleted\n"
         "hint: -y deletes without asking\n"),
        (["delete"], 129, "error: name snapshots, or --all\nhint: git wf snapshot delete -h\n"),
        (["prune"], 129, "error: give --keep or --older-than\nhint: git wf snapshot prune -h\n"),
        (["prune", "--older-than", "x"], 129,
         "error: --older-than: 'x' is not a duration, such as 30d\n"
         "hint: git wf snapshot prune -h\n"),
        (["restor"], 129,
         "error: 'restor' is not a git wf snapshot command; did you mean 'restore'?\n"
         "hint: git wf snapshot -h\n"),
        ([], 129, "error: missing command\nhint: git wf snapshot -h\n"),
        (["diff", "@1", "@1", "@1"], 129,
         "error: diff takes two snapshots at most\nhint: git wf snapshot diff -h\n"),
    ],
)  # fmt: skip
def test_a_refusal_changes_nothing(
    wf: Program, repo: Path, words: list[str], status: int, err: str
) -> None:
    save(wf, "one")
    (repo / "README").write_text("edited\n")
    wf.ok("snapshot", "diff")
    with untouched(repo):
        wf.fails(status, ["snapshot", *words], err.replace("REPO", str(repo)))


@pytest.mark.parametrize("words", [["restore", "last"], ["rewind"], ["diff"], ["show"]])
def test_nothing_is_saved_yet(wf: Program, words: list[str]) -> None:
    wf.fails(
        128, ["snapshot", *words],
        "error: no snapshot of this workspace yet\nhint: git wf snapshot save MESSAGE\n",
    )  # fmt: skip


def test_diff(wf: Program, repo: Path) -> None:
    (repo / "mod").write_text("a\nb\n")
    (repo / "bin").write_bytes(b"\0\1")
    (repo / "ren").write_text("".join(f"{number}\n" for number in range(50)))
    (repo / "key").write_text("k\n")
    (repo / "gone").mkdir()
    one = save(wf, "one")
    (repo / "mod").write_text("a\nc\nd\n")
    (repo / "bin").write_bytes(b"\0\2")
    (repo / "ren").rename(repo / "ren2")
    (repo / "key").chmod(0o600)
    (repo / "gone").rmdir()
    (repo / "made").mkdir()
    (repo / "README").unlink()
    lines = (
        "D  README      +0      -1\n"
        "M  bin         binary\n"
        "M  key         +0      -0\n"
        "   permissions as usual -> 600\n"
        "M  mod         +2      -1\n"
        "R  ren -> ren2 +0      -0\n"
        "D  gone/  empty directory\n"
        "A  made/  empty directory\n"
        "5 files +2 -2\n"
    )
    found = wf.ok("snapshot", "diff")
    assert re.sub(r" +(?=[+b-])", " ", found.out) == re.sub(r" +(?=[+b-])", " ", lines)
    assert wf("snapshot", "diff", one, "--exit-code").status == 1
    assert "+c" in wf.ok("snapshot", "diff", "-p").out.splitlines()
    assert " mod" in wf.ok("snapshot", "diff", "--stat").out
    data = wf.ok("snapshot", "diff", "--json").json
    assert [each["status"] for each in data["files"]] == [
        "deleted", "modified", "modified", "modified", "renamed",
    ]  # fmt: skip
    assert (data["to"], data["insertions"], data["deletions"]) == (None, 2, 2)
    assert data["empty_dirs"] == {"gone": "deleted", "made": "added"}
    two = save(wf, "two")
    assert wf.ok("snapshot", "diff", one, two).out == found.out
    assert (wf.ok("snapshot", "diff").out, wf("snapshot", "diff", "--exit-code").status) == ("", 0)
    git("fsck", "--strict", cwd=repo)


def test_show(wf: Program, repo: Path) -> None:
    (repo / "a").write_text("1\n")
    one = save(wf, "first\nsecond line", "--step", "2")
    assert named(wf.ok("snapshot", "show").out, one) == (
        "snapshot ID1  @1\n"
        "saved     2030-01-02T03:04:05.000000Z\n"
        "on        main COMMIT\n"
        "notes     step 2\n"
        "\n"
        "    first\n"
        "    second line\n"
        "\n"
        "A  a  +1  -0\n"
        "1 file +1 -0\n"
    )
    record = wf.ok("snapshot", "show", one, "--json").json["record"]
    assert record["head"] == git("rev-parse", "HEAD", cwd=repo)
    assert record["index_tree"] == git("rev-parse", "HEAD^{tree}", cwd=repo)
    assert git("show", f"{one}:files/a", cwd=repo) == "1"


def test_delete_and_prune(wf: Program, repo: Path) -> None:
    ids = []
    for number in range(4):
        (repo / "a").write_text(f"{number}\n")
        ids.append(save(wf, f"m{number}"))
    (repo / "a").write_text("x\n")
    wf.ok("snapshot", "restore", ids[3])
    done = wf.ok("snapshot", "delete", ids[0], "-y")
    assert told(done, *ids) == "deleted ID1: m0\n"
    assert told(wf.ok("snapshot", "prune", "--keep", "2"), *ids) == "deleted ID2: m1\n"
    assert told(wf.ok("snapshot", "prune", "--keep", "2"), *ids) == "nothing to delete\n"
    wf.clock.advance(3600)
    done = wf.ok("snapshot", "prune", "--older-than", "1h")
    assert named(done.out, *ids) == "deleted ID3: m2\ndeleted COMMIT: before restore of ID4\n"
    assert [each["short_id"] for each in listed(wf)] == [ids[3]]  # the current one
    deleted = wf.ok("snapshot", "delete", "--all", "-y", "--json").json["deleted"]
    assert [each["message"] for each in deleted] == ["m3"]
    assert git("for-each-ref", "refs/wf", cwd=repo) == ""
    (repo / "a").write_text("y\n")
    assert len(save(wf, "after all were deleted")) == 9
    git("fsck", "--strict", cwd=repo)


def test_what_is_not_covered_is_told(wf: Program, repo: Path) -> None:
    git("config", "wf.snapshotMaxFile", "1k", cwd=repo)
    (repo / "big").write_bytes(bytes(2000))
    notice = "notice: not saved: 'big': larger than wf.snapshotMaxFile\n"
    done = wf.ok("snapshot", "save", "one")
    assert done.err == notice
    one = done.out.split()[-1]
    assert wf.ok("snapshot", "list").out.endswith("one (1 not saved)\n")
    assert "\nnot saved:\n  big: larger than wf.snapshotMaxFile\n" in wf.ok("snapshot", "show").out
    assert wf.ok("snapshot", "restore", "last").err == notice
    (repo / "big").write_bytes(b"small now")
    (repo / "README").unlink()
    wf.ok("snapshot", "restore", one)
    assert (repo / "big").read_bytes() == b"small now" and (repo / "README").exists()
    assert wf.ok("snapshot", "diff").out.startswith("A  big  +1  -0\n")


def test_a_file_that_is_too_large_now_is_not_overwritten(wf: Program, repo: Path) -> None:
    one = save(wf, "one")
    git("config", "wf.snapshotMaxFile", "1k", cwd=repo)
    (repo / "README").write_bytes(bytes(2000))
    wf.fails(
        128, ["snapshot", "restore", one],
        "error: in the way, and not saved: 'README' (larger than wf.snapshotMaxFile)\n"
        "hint: move it away, then restore again; nothing was changed\n",
    )  # fmt: skip


def test_outside_a_repository(wf: Program, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("1\n")
    one = save(wf, "one", cwd=folder)
    (folder / "sub" / "a").write_text("2\n")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "x.log").write_text("left alone\n")
    assert wf.ok("snapshot", "diff", cwd=folder).out.splitlines()[1] == "M  sub/a       +1  -1"
    assert wf.ok("snapshot", "restore", "last", cwd=folder).out.startswith(f"restored {one}")
    assert (folder / "sub" / "a").read_text() == "1\n" and (folder / "x.log").exists()
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert one in wf.ok("snapshot", "list", cwd=link).out
    assert wf.ok("snapshot", "list", "-w", str(folder)).out.count("\n") == 2
    state = Path(os.environ["XDG_STATE_HOME"], "git-wf")
    (private,) = state.glob("folder-*")
    assert private.stat().st_mode & 0o777 == 0o700
    wf.ok("snapshot", "delete", "--all", "-y", cwd=folder)
    assert git("count-objects", cwd=private / "snapshots.git") == "0 objects, 0 kilobytes"


def test_a_linked_worktree_has_its_own(wf: Program, repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "main"
    git("worktree", "add", "-q", "--detach", str(other), cwd=repo)
    save(wf, "here")
    save(wf, "there", cwd=other)
    assert [each["message"] for each in listed(wf)] == ["here"]
    assert git("for-each-ref", "--format=%(refname)", "refs/wf/cursor", cwd=repo) == (
        "refs/wf/cursor/%6Dain\nrefs/wf/cursor/main"
    )


@pytest.mark.parametrize("what", ["home", "state", "/"])
def test_what_is_not_saved_as_a_whole(wf: Program, tmp_path: Path, what: str) -> None:
    home = Path(os.environ["HOME"])
    place = {"home": home, "state": home / ".state", "/": Path("/")}[what]
    place.mkdir(exist_ok=True)
    words = {
        "home": "your home directory", "state": "where git-wf keeps its own state",
        "/": "a folder of the system",
    }[what]  # fmt: skip
    wf.fails(
        128, ["snapshot", "save", "x"],
        f"error: '{place}' is {words}: it is not saved as a whole\n"
        "hint: cd into the folder that you work in, or -w FOLDER\n"
        f"hint: git config --global --add wf.snapshotAllow {place} allows it\n",
        cwd=place,
    )  # fmt: skip


def test_a_folder_that_is_allowed(wf: Program, tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    (home / ".gitignore").write_text("*\n")
    git("config", "--global", "--add", "wf.snapshotAllow", str(home), cwd=home)
    assert wf.ok("snapshot", "save", "x", cwd=home).out.startswith("saved as ")


def test_places_without_a_workspace(wf: Program, repo: Path, tmp_path: Path) -> None:
    git("init", "-q", "--bare", "bare.git", cwd=tmp_path)
    for place in (repo / ".git", tmp_path / "bare.git"):
        wf.fails(
            128, ["snapshot", "save", "x"],
            "error: not in a worktree: there is nothing to save\n"
            "hint: git wf snapshot save MESSAGE -w FOLDER\n",
            cwd=place,
        )  # fmt: skip
    wf.fails(
        128, ["snapshot", "list", "-w", "gone"],
        f"error: no such folder: '{repo / 'gone'}'\nhint: git wf snapshot list -w FOLDER\n",
    )  # fmt: skip


def test_another_repository_in_the_environment(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    with untouched(other):
        done = wf.ok("snapshot", "save", "x")
    assert done.err == "notice: GIT_DIR is ignored: a workspace is found from its folder\n"
    monkeypatch.setenv("GIT_DIR", ".git")  # as git itself sets it in a hook
    assert wf.ok("snapshot", "save", "x", "--allow-empty").err == ""


def test_ignored_content_is_in_the_way(wf: Program, repo: Path) -> None:
    (repo / ".gitignore").write_text("build/\n")
    (repo / "x").write_text("file\n")
    one = save(wf, "one")
    (repo / "x").unlink()
    (repo / "x" / "build").mkdir(parents=True)
    (repo / "x" / "build" / "made").write_text("precious\n")
    (repo / "README").write_text("edited\n")
    with untouched(repo / "x"):
        wf.fails(
            128, ["snapshot", "restore", one],
            "error: in the way, and not saved: 'x/build/made' (never saved)\n"
            "hint: move it away, then restore again; nothing was changed\n",
        )  # fmt: skip
    assert (repo / "README").read_text() == "edited\n"


def test_a_file_that_was_ignored_then_is_not_taken_away(wf: Program, repo: Path) -> None:
    (repo / ".gitignore").write_text("*.sql\n")
    (repo / "d.sql").write_text("dump\n")
    one = save(wf, "one")
    (repo / ".gitignore").unlink()
    save(wf, "two")  # with the dump
    wf.ok("snapshot", "restore", one)
    assert (repo / "d.sql").read_text() == "dump\n"
    assert wf("snapshot", "diff", "--exit-code").status == 0


def test_a_file_that_is_ignored_now_is_saved_before_it_is_replaced(wf: Program, repo: Path) -> None:
    (repo / "a.log").write_text("1\n")
    one = save(wf, "one")
    (repo / ".gitignore").write_text("*.log\n")
    (repo / "a.log").write_text("2\n")
    wf.ok("snapshot", "restore", one)
    assert (repo / "a.log").read_text() == "1\n" and not (repo / ".gitignore").exists()
    kept = next(each["short_id"] for each in listed(wf) if each["automatic"])
    wf.ok("snapshot", "restore", str(kept))
    assert (repo / "a.log").read_text() == "2\n"


def test_help_tells_the_verbs(wf: Program) -> None:
    out = wf.ok("snapshot", "-h").out
    assert [verb for verb in ("save", "undo-edits", "prune") if verb not in out] == []
    assert "--allow-empty" in wf.ok("snapshot", "save", "-h").out
