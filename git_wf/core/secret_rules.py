"""Secrets in what is about to leave the machine: the values that are declared, and known forms.

The forms are those of detect-secrets that know a token by its shape. Its guesses by entropy, by a
word such as `password` and by public addresses are left out: a build log is full of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

from git_wf.core.context import spellings

DECLARED = "declared secret"
ALLOWED = "pragma: allowlist secret"  # on its line, a known form is meant to be there
_FORMS = (
    "artifactory.ArtifactoryDetector", "aws.AWSKeyDetector",
    "azure_storage_key.AzureStorageKeyDetector", "basic_auth.BasicAuthDetector",
    "cloudant.CloudantDetector", "discord.DiscordBotTokenDetector",
    "github_token.GitHubTokenDetector", "gitlab_token.GitLabTokenDetector",
    "ibm_cloud_iam.IbmCloudIamDetector", "ibm_cos_hmac.IbmCosHmacDetector",
    "jwt.JwtTokenDetector", "mailchimp.MailchimpDetector", "npm.NpmDetector",
    "openai.OpenAIDetector", "private_key.PrivateKeyDetector", "pypi_token.PypiTokenDetector",
    "sendgrid.SendGridDetector", "slack.SlackDetector", "softlayer.SoftlayerDetector",
    "square_oauth.SquareOAuthDetector", "stripe.StripeDetector",
    "telegram_token.TelegramBotTokenDetector", "twilio.TwilioKeyDetector",
)  # fmt: skip


class Finding(NamedTuple):
    """Where something stands that looks like a secret; never the secret itself."""

    place: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.rule}"


class _Form(NamedTuple):
    rule: str
    patterns: Sequence[re.Pattern[str]]
    is_anchored: bool  # to the beginning or end of a line


@cache
def _forms() -> tuple[_Form, ...]:
    """The library takes a while to import, and only a push has to wait for it."""
    forms = []
    for name in _FORMS:
        module, _, kind = name.partition(".")
        detector = getattr(import_module(f"detect_secrets.plugins.{module}"), kind)
        patterns = tuple(detector.denylist)
        anchored = any("^" in one.pattern or "$" in one.pattern for one in patterns)
        forms.append(_Form(detector.secret_type, patterns, anchored))
    return tuple(forms)


def find_secrets(place: str, data: bytes, declared: Iterable[str]) -> Iterator[Finding]:
    """In the order of lines, one finding a rule and line."""
    text = data.decode("utf-8", "replace")
    values = {spelling for value in declared for spelling in spellings(value)}
    found = {
        (text.count("\n", 0, at) + 1, DECLARED) for value in values for at in _places(text, value)
    }
    if b"\0" not in data[:8000]:
        found |= set(_known_forms(text))
    yield from (Finding(place, line, rule) for line, rule in sorted(found))


def _places(text: str, value: str) -> Iterator[int]:
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + 1)


def _known_forms(text: str) -> Iterator[tuple[int, str]]:
    likely = [
        form
        for form in _forms()
        if form.is_anchored or any(pattern.search(text) for pattern in form.patterns)
    ]
    if not likely:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if ALLOWED in line:
            continue
        for form in likely:
            if any(pattern.search(line) for pattern in form.patterns):
                yield number, form.rule
