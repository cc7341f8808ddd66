"""What must hold of a case that was played: said by two listings, with no word of the recorder's."""

from __future__ import annotations

from tests.fidelity.listing import Entry, Listing, below, same_thing, twins
from tests.fidelity.play import Case, Played


def complaints(case: Case, played: Played) -> list[str]:
    """All that is not as it must be; empty where it is."""
    before, after, rewound, undone, redone = (
        {path: one for path, one in below(stop, case.name.encode()).items() if _counts(one, case)}
        for stop in played.stops
    )
    return [
        *(f"rewind: {one}" for one in _arrived(before, after, rewound, case.lost)),
        *(f"undo: {one}" for one in _arrived(after, rewound, undone, case.lost)),
        *(f"redo: {one}" for one in _arrived(rewound, undone, redone, case.lost)),
    ]


def _counts(entry: Entry, case: Case) -> bool:
    return not (entry.kind.startswith("special") and "special" in case.lost)


def _arrived(wanted: Listing, there: Listing, now: Listing, lost: frozenset[str]) -> list[str]:
    """That what was `there` became what is `wanted`, and nothing else was touched on the way."""
    said = []
    for path in sorted(wanted.keys() | there.keys() | now.keys()):
        want, was, stands = wanted.get(path), there.get(path), now.get(path)
        if _what(want) != _what(stands):
            said.append(f"{path!r} is {_what(stands)} and should be {_what(want)} (was {_what(was)})")
        elif _what(want) == _what(was) and not same_thing(was, stands):
            said.append(f"{path!r} was touched for nothing: {was} became {stands}")
        elif want and was and stands:
            said += _kept(path, was, stands)
        elif want and stands:
            said += _brought_back(path, want, stands, lost)
    if "links" not in lost and twins(wanted) != twins(now):
        said.append(f"linked are {twins(now)} and should be {twins(wanted)}")
    return said


def _kept(path: bytes, was: Entry, stands: Entry) -> list[str]:
    """A thing of the same kind that is written over keeps what belongs to it."""
    kept, now = _belongings(was), _belongings(stands)
    if was.mode != stands.mode:  # part of what an access list says
        kept, now = (kept[0], kept[1].keys()), (now[0], now[1].keys())
    return [f"{path!r} belonged to {kept}, now {now}"] if was.kind == stands.kind and kept != now else []


def _belongings(entry: Entry) -> tuple[tuple[int, int], dict[str, bytes]]:
    return entry.owner, dict(entry.attributes)


def _brought_back(path: bytes, want: Entry, stands: Entry, lost: frozenset[str]) -> list[str]:
    said = []
    if "owner" not in lost and want.owner != stands.owner:
        said.append(f"{path!r} belongs to {stands.owner} and should to {want.owner}")
    if "attributes" not in lost and want.attributes != stands.attributes:
        said.append(f"{path!r} has {stands.attributes} and should have {want.attributes}")
    return said


def _what(entry: Entry | None) -> tuple[object, ...] | None:
    return entry.what if entry else None
