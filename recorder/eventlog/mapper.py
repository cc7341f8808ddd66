"""A fact to its stored topic and bytes, and back.

The topic is the class name and its schema version (`PromptGiven.1`), the bytes are the struct as a
MessagePack array. Older topics are brought up to date by the upcasts of `migrations/`; a topic that
this version does not know becomes `Unread`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from recorder.errors import IntegrityFailure
from recorder.events import FACTS, Fact, Unread

Upcast: TypeAlias = Callable[[list[Any]], tuple[str, list[Any]]]
"""From the fields stored under an old topic to a newer topic and its fields, in the order of the
struct. Values are MessagePack's own: an id is 16 bytes, a nested struct a list."""

Upcasts: TypeAlias = Mapping[str, Upcast]
"""Upcasts by the topic they start from; applied one after the other until none starts there."""


def topic_of(kind: type[Fact]) -> str:
    return f"{kind.__name__}.{kind.schema}"


_TOPICS: dict[type[Fact], str] = {kind: topic_of(kind) for kind in FACTS}
_KINDS: dict[str, type[Fact]] = {topic: kind for kind, topic in _TOPICS.items()}
_pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode


@cache
def _unpack(kind: type[Any]) -> Callable[[bytes], Any]:
    return msgspec.msgpack.Decoder(kind).decode


def encode(fact: Fact) -> tuple[str, bytes]:
    """The topic and the bytes to store. Raises TypeError for a type that is not in `events.FACTS`."""
    topic = _TOPICS.get(type(fact))
    if topic is None:
        raise TypeError(f"{type(fact).__name__} is no type of fact that can be stored")
    return topic, _pack(fact)


def decode(topic: str, state: bytes, *, stream: str, version: int, upcasts: Upcasts) -> Fact:
    """The fact stored under `topic` as a version of `stream` (hex id). Raises IntegrityFailure where the
    bytes are not one."""
    try:
        current, fields = _upcast(topic, state, upcasts) if topic in upcasts else (topic, state)
        kind = _KINDS.get(current)
        if kind is None:
            return _unread(topic, state, stream, version)
        fact: Fact = _unpack(kind)(fields)
    except (msgspec.DecodeError, TypeError, ValueError) as error:  # a damaged row holds any kind of value
        raise IntegrityFailure(
            f"fact {version} of stream {stream} is not a {topic}: {error}", stream=stream, version=version
        ) from error
    return fact


def _upcast(topic: str, state: bytes, upcasts: Upcasts) -> tuple[str, bytes]:
    fields: list[Any] = _unpack(list)(state)
    while topic in upcasts:
        topic, fields = upcasts[topic](fields)
    return topic, _pack(fields)


def _unread(topic: str, state: bytes, stream: str, version: int) -> Unread:
    """Every schema begins with the fields of `Fact`, so a newer one still says when it happened."""
    try:
        at = _unpack(Fact)(state).at
    except msgspec.DecodeError:
        at = 0
    return Unread(originator_id=UUID(stream), originator_version=version, at=at, topic=topic, state=state)
