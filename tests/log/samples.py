"""Facts for the tests of the event log: a small one, and a strategy for random ones of every type."""

from __future__ import annotations

import types
import typing
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from recorder.events import FACTS, Fact, RunStarted

STREAM = UUID(int=1)
OTHER = UUID(int=2)


def run(version: int, stream: UUID = STREAM, run: str = "run") -> RunStarted:
    return RunStarted(originator_id=stream, originator_version=version, at=version, time="", run=run)


def runs(first: int, last: int, stream: UUID = STREAM) -> list[Fact]:
    return [run(version, stream) for version in range(first, last + 1)]


def facts() -> st.SearchStrategy[Fact]:
    """A fact of any stored type with any values; version 1 of a stream of its own."""
    return st.one_of([structs(kind) for kind in FACTS]).map(
        lambda fact: msgspec.structs.replace(fact, originator_version=1)
    )


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy:
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: values(field.type) for field in fields})


def values(kind: object) -> st.SearchStrategy:
    """Values of a field's type, as far as the facts use any."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return st.one_of([values(part) for part in parts])
    if origin is tuple:
        return st.lists(values(parts[0]), max_size=3).map(tuple)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structs(kind)
    return {
        int: st.integers(-(2**63), 2**63 - 1),
        str: st.text(max_size=20),
        bytes: st.binary(max_size=20),
        bool: st.booleans(),
        UUID: st.uuids(),
        types.NoneType: st.none(),
    }[kind]
