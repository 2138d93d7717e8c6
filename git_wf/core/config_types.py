"""What is wrong with the types in a decoded run config: in words, with the path of the key."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

_UNIONS = (Union, types.UnionType)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
_FITTING: dict[type, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float)}
# What stands in an example of a key, where that says more than dots.
_EXAMPLES = {
    "event": "stage_start",
    "from": "{{ env.NAME }}",
    "graph": "workflow.dot",
    "timeout": "30s",
}


class Fault(NamedTuple):
    message: str
    hint: str


def find_type_fault(data: Any, kind: Any, path: str = "") -> Fault | None:
    """The first value that is none of what its type allows, or is missing; None where all fit."""
    choices = [one for one in choices_of(kind) if one is not types.NoneType]
    for one in choices:
        if _fits(data, one):
            return next(_faults_below(data, one, path), None)
    needed = _listed([_word(one) for one in choices if one is not int or float not in choices])
    message = f"'{path}': {needed} is needed, not {_word_of(data)}"
    return Fault(message, _example(path, choices[0], data))


def find_nul(data: Any, path: str = "") -> str | None:
    """The path of the first string with a NUL byte; that of the table where a key has one."""
    if isinstance(data, str):
        return path if "\0" in data else None
    if isinstance(data, list):
        inside = (find_nul(one, f"{path}[{number}]") for number, one in enumerate(data))
        return next(filter(None, inside), None)
    if not isinstance(data, Mapping):
        return None
    if any("\0" in key for key in data):
        return path or "a key"
    inside = (find_nul(one, joined(path, key)) for key, one in data.items())
    return next(filter(None, inside), None)


def joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def choices_of(kind: Any) -> tuple[Any, ...]:
    """The types that a type is the union of; itself where it is none."""
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


def fields_of(kind: Any) -> dict[str, msgspec.structs.FieldInfo] | None:
    """The keys of a table, where the type says them."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return None
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _fits(data: Any, kind: Any) -> bool:
    if kind is bool or isinstance(data, bool):
        return kind is bool and isinstance(data, bool)
    if kind in _FITTING:
        return isinstance(data, _FITTING[kind])
    return isinstance(data, list if get_origin(kind) is list else Mapping)


def _faults_below(data: Any, kind: Any, path: str) -> Iterator[Fault]:
    if get_origin(kind) is list:
        below = [(one, get_args(kind)[0], f"{path}[{at}]") for at, one in enumerate(data)]
    elif get_origin(kind) is dict:
        below = [(one, get_args(kind)[1], joined(path, key)) for key, one in data.items()]
    else:
        fields = fields_of(kind) or {}
        below = [(data[key], fields[key].type, joined(path, key)) for key in fields if key in data]
        for key, field in fields.items():
            if field.required and key not in data:
                where = joined(path, key)
                yield Fault(f"'{where}' is missing", _example(where, field.type, None))
    for one, inner, where in below:
        fault = find_type_fault(one, inner, where)
        if fault is not None:
            yield fault


def _word(kind: Any) -> str:
    if get_origin(kind) is list:
        inner = "strings" if get_args(kind)[0] is str else "tables"
        return f"a list of {inner}"
    return _WORDS.get(kind, "a table")


def _word_of(data: Any) -> str:
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, list):
        return "a list"
    if isinstance(data, Mapping):
        return "a table"
    if isinstance(data, (int, float)):
        return "a number"
    return "a string" if isinstance(data, str) else "a date"


def _listed(words: list[str]) -> str:
    """`a string`, `a string or a table`, `a string, a number, true or false`."""
    if len(words) == 1 or " or " in words[-1]:
        return ", ".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _example(path: str, kind: Any, data: Any) -> str:
    """The right form of a key, made of what was written where that is clear."""
    place = re.sub(r"\[\d+\]$", "", path)
    key = place.rpartition(".")[2]
    written = key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
    is_item = place != path
    if kind in _WORDS:
        value = _example_value(key, kind, data)
        return f"{written} = [{value}]" if is_item else f"{written} = {value}"
    if get_origin(kind) is list and get_args(kind)[0] is str:
        words = data.split() if isinstance(data, str) and data.split() else ["…"]
        return f"{written} = {json.dumps(words, ensure_ascii=False)}"
    if get_origin(kind) is list or is_item:
        return f"[[{place}]]"
    return f"[{place}]"


def _example_value(key: str, kind: type, data: Any) -> str:
    if kind is str:
        text = str(data).lower() if isinstance(data, (bool, int, float)) else "…"
        text = _EXAMPLES.get(key, text)
        return json.dumps(text, ensure_ascii=False)
    return "true" if kind is bool else "1"
