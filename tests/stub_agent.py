"""A stub agent: an executable that answers what its prompt says."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

STUB = f"""\
#!{sys.executable}
'''Answers what the last line with "stub: " in its prompt says, and notes the prompt.'''
import json, os, re, sys

prompt = sys.stdin.read()
with open("prompts", "a") as file:
    file.write(json.dumps([sys.argv[1:], prompt]) + "\\n")
answers = re.findall(r"stub: (.*)", prompt)
key, _, value = (answers[-1] if answers else "").partition("=")
names = {{"preferred_label": "preferred_next_label"}}
if key in ("suggested_next_ids", "context_updates"):
    value = json.loads(re.sub(r"(\\w+):", r'"\\1":', value.replace("'", '"')))
elif key == "raw":
    print(value)
    key = ""
elif key == "exit":
    print("gone")
    sys.exit(int(value))
print("done")
if key:
    print(json.dumps({{names.get(key, key): value}}))
"""


def write_stub_agent(path: Path) -> Path:
    path.write_text(STUB)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
