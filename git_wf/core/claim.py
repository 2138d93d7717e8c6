"""The claim on a run: which machine goes on with it, as the remote holds it for all others.

A claim says who made it, and when by that machine's clock, which is told to people and never
compared: it has expired where the remote has held the very same one for `EXPIRES` seconds by the
clock of whoever wants to take it over.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from git_wf.errors import StateUnreadable

RENEWED = 60.0  # seconds from one renewal to the next
EXPIRES = 600.0
FORMAT = 1


@dataclass(frozen=True)
class Claim:
    run_id: str
    host: str
    process: int
    claimant: str  # a clone of the project: who holds the run's lock there has outlived the claim
    run_tip: str
    time: str
    is_released: bool = False

    def message(self) -> str:
        """Of the commit that is the claim."""
        word = "release" if self.is_released else "claim"
        body = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, indent=2)
        return f"{word} {self.run_id}\n\n{body}\n"

    @property
    def holder(self) -> str:
        return f"process {self.process} on {self.host}"


def read_claim(message: str, origin: str) -> Claim:
    try:
        told = json.loads(message.partition("\n\n")[2])
        if told.pop("format") != FORMAT:
            raise StateUnreadable(
                f"'{origin}' is of a newer format", hint="upgrade git-wf, or wait until it is gone"
            )
        return Claim(**told)
    except (ValueError, TypeError, AttributeError, KeyError) as err:
        raise StateUnreadable(f"'{origin}' is no claim", hint="git wf resume --no-claim") from err
