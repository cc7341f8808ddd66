"""The agents whose logs can be read: one module each, all behind `recorder.sources.base.Source`."""

from __future__ import annotations

from recorder.sources.base import Source


def all_sources() -> tuple[Source, ...]:
    """Every source, in the order in which a log is offered to them."""
    from recorder.sources.claude import SOURCE as claude
    from recorder.sources.pi import SOURCE as pi

    return (pi, claude)


def source_of(agent: str) -> Source:
    """The source of an agent. Raises KeyError for an agent that nobody reads."""
    return {source.agent: source for source in all_sources()}[agent]
