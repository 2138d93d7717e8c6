"""Who commits: the user's git identity, and the author and committer lines made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from git_wf.core.clock import git_date
from git_wf.errors import GitFailed, UserError
from git_wf.store.repo import Repo

FALLBACK = "git-wf <git-wf@localhost>"
_IDENT = re.compile(r"(.*<.*>) (-?[0-9]+ [+-][0-9]{4})", re.DOTALL)


@dataclass(frozen=True)
class Identity:
    """`Name <email>` of author and committer; dates where the environment fixes them."""

    author: str
    committer: str
    author_date: str | None = None  # `1764504000 +0100`
    committer_date: str | None = None
    is_fallback: bool = False

    def author_line(self, moment: datetime) -> str:
        return f"{self.author} {self.author_date or git_date(moment)}"

    def committer_line(self, moment: datetime) -> str:
        return f"{self.committer} {self.committer_date or git_date(moment)}"

    def env(self, moment: datetime | None = None) -> dict[str, str]:
        """For git calls that write reflogs or commits.

        Without a moment git takes the time of the call, unless the environment fixes the date.
        """
        values = {}
        for side, ident, date in (
            ("AUTHOR", self.author, self.author_date),
            ("COMMITTER", self.committer, self.committer_date),
        ):
            name, _, email = ident.rpartition(" <")
            values[f"GIT_{side}_NAME"] = name
            values[f"GIT_{side}_EMAIL"] = email.removesuffix(">")
            if date or moment:
                values[f"GIT_{side}_DATE"] = f"@{date or git_date(moment or datetime.min)}"
        return values


def read_identity(repo: Repo) -> Identity:
    """The identity that `git commit` would use; without one, `git-wf <git-wf@localhost>`.

    Raises `UserError` where `user.useConfigOnly` forbids to make one up.
    """
    author, author_date = _ident(repo, "AUTHOR")
    committer, committer_date = _ident(repo, "COMMITTER")
    return Identity(
        author=author or FALLBACK,
        committer=committer or FALLBACK,
        author_date=author_date if repo.env.get("GIT_AUTHOR_DATE") else None,
        committer_date=committer_date if repo.env.get("GIT_COMMITTER_DATE") else None,
        is_fallback=not (author and committer),
    )


def _ident(repo: Repo, side: str) -> tuple[str | None, str | None]:
    try:
        told = repo.line("var", f"GIT_{side}_IDENT")
    except GitFailed as err:
        date = repo.env.get(f"GIT_{side}_DATE")
        if date and "date" in err.stderr:
            raise UserError(
                f"GIT_{side}_DATE: '{date}' is not a date that git reads",
                hint=f"export GIT_{side}_DATE='2030-01-02T03:04:05Z', or unset it",
            ) from err
        if _config_only(repo):
            raise UserError(
                "no git identity, and user.useConfigOnly is set",
                hint='git config user.name "Your Name" && git config user.email you@example.com',
            ) from err
        # The date can be asked for all the same, with an identity lent for the question.
        lent = {f"GIT_{side}_NAME": "git-wf", f"GIT_{side}_EMAIL": "git-wf@localhost"}
        told = repo.git("var", f"GIT_{side}_IDENT", env=lent).decode().rstrip("\n")
        matched = _IDENT.fullmatch(told)
        assert matched, told
        return None, matched[2]
    matched = _IDENT.fullmatch(told)
    assert matched, told
    return matched[1], matched[2]


def _config_only(repo: Repo) -> bool:
    asked = repo.line("config", "--type=bool", "--get", "user.useConfigOnly", ok=(0, 1))
    return asked == "true"
