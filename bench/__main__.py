"""`python -m bench [BUDGET…]`: measures, prints a line a figure, and says which budget falls short.

Everything is made below a directory of scratch that goes at the end. The full measurement needs
some gigabytes there, and the better part of an hour on a slow machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.budgets import BUDGETS, Budget
from bench.checkpoints import Bench
from bench.compare import Figure
from bench.grounds import remove


def main() -> int:
    given = _parse()
    chosen = [one for one in BUDGETS if not given.budgets or one.name in given.budgets]
    if given.list:
        for one in BUDGETS:
            later = "" if one.measure else "  (not measured: it does not exist yet)"
            print(f"{one.name:11}{one.what}: {one.limit}{later}")
        return 0
    if given.scratch:
        os.makedirs(given.scratch, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="git-wf-bench-", dir=given.scratch))
    bench = Bench(scratch, quick=given.quick)
    if not given.json:
        print(_machine())
    short: list[str] = []
    try:
        for budget in chosen:
            short += _measured(bench, budget, as_json=given.json)
    finally:
        remove(scratch)
    if not given.json:
        print("every budget is met" if not short else f"short of the budget: {'; '.join(short)}")
    return 1 if short else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("budgets", nargs="*", metavar="BUDGET", help="all, if none is named")
    parser.add_argument("--list", action="store_true", help="tell the budgets, and measure nothing")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no large repository")
    parser.add_argument("--json", action="store_true", help="one JSON object a figure")
    parser.add_argument("--scratch", metavar="DIR", help="where to make repositories")
    given = parser.parse_args()
    unknown = set(given.budgets) - {one.name for one in BUDGETS}
    if unknown:
        parser.error(f"no such budget: {', '.join(sorted(unknown))} (--list tells them)")
    return given


def _measured(bench: Bench, budget: Budget, *, as_json: bool) -> list[str]:
    """Measures and prints; what falls short."""
    if budget.measure is None:
        if not as_json:
            print(f"{budget.name:11}{budget.what}: does not exist yet")
        return []
    short = []
    for figure in budget.measure(bench):
        if as_json:
            told = {"budget": budget.name, **asdict(figure), "is_met": figure.is_met}
            print(json.dumps(told), flush=True)
        else:
            print(_line(budget, figure), flush=True)
        if not figure.is_met:
            short.append(f"{budget.name} ({figure.what})")
    return short


def _line(budget: Budget, figure: Figure) -> str:
    parts = [f"{budget.name:11}{figure.what}: {figure.value:.2f} {figure.unit}"]
    if figure.low is not None and figure.high is not None:
        parts.append(f"quartiles {figure.low:.2f} to {figure.high:.2f}")
    if figure.cpu is not None:
        parts.append(f"CPU {figure.cpu:.2f} ×")
    if figure.ours is not None and figure.base is not None:
        parts.append(f"{figure.ours * 1000:.1f} against {figure.base * 1000:.1f} ms")
    if figure.noise is not None:
        parts.append(f"noise ±{figure.noise * 100:.0f} %")
    verdict = "met" if figure.is_met else "SHORT"
    limit = "" if figure.limit == float("inf") else f"; budget {figure.limit:g}: {verdict}"
    return ", ".join(parts) + limit


def _machine() -> str:
    git = subprocess.run(["git", "version"], stdout=subprocess.PIPE, check=True).stdout
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, load {load:.1f}, "
        f"{git.decode().strip()}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
