"""How diagnostics of workflow files are printed, everywhere."""

from __future__ import annotations

from git_wf.core.graph import Diagnostic, excerpt
from git_wf.core.trailers import one_line


def text_lines(diagnostic: Diagnostic, file: str, text: str) -> list[str]:
    """`file:3:7: error: message (rule)`, the line with a caret, and the way to mend it."""
    place = [one_line(file)] if file else []
    if diagnostic.line is not None:
        place += [str(diagnostic.line), str(diagnostic.column or 1)]
    head = f"{':'.join(place)}: " if place else ""
    message = one_line(diagnostic.message)
    lines = [f"{head}{diagnostic.severity}: {message} ({diagnostic.rule})"]
    lines += [f"  {line}" for line in excerpt(text, diagnostic).splitlines() if text]
    if diagnostic.fix:
        lines.append(f"  fix: {one_line(diagnostic.fix)}")
    return lines


def github_line(file: str, diagnostic: Diagnostic) -> str:
    """A workflow command, as GitHub Actions reads it."""
    properties = {"file": file, "title": diagnostic.rule}
    if diagnostic.line is not None:
        properties |= {"line": str(diagnostic.line), "col": str(diagnostic.column or 1)}
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    message = diagnostic.message + (f" (fix: {diagnostic.fix})" if diagnostic.fix else "")
    return f"::{diagnostic.severity} {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
