"""The picker: a list of checkpoints on a terminal, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.choice import no_active_prompt
from projections import checkpoints, conversation

if TYPE_CHECKING:
    from cli.context import Recording
    from projections.sessions import SessionRow


def pick_checkpoint(recording: Recording, session: SessionRow) -> str | None:
    """The id that a person chose, or None. Raises NotFound where there is nothing to choose."""
    import questionary

    from recorder.errors import NotFound

    connection = recording.views.connection
    prompts = conversation.active_prompts(connection, session.stream)
    found = [
        (prompt, one)
        for prompt in reversed(prompts)
        if (one := checkpoints.checkpoint_of_entry(connection, session.stream, prompt.entry)) is not None
    ]
    if not prompts:
        raise NotFound(no_active_prompt(connection, session), code="no_checkpoint")
    if not any(one.restorable for _, one in found):
        raise NotFound(
            f"session {session.session} has no checkpoint that can be gone back to", code="no_checkpoint"
        )
    choices = [
        questionary.Choice(
            title=_title(prompt, one),
            value=one.id,
            disabled=None if one.restorable else (one.why or one.state),
        )
        for prompt, one in found
    ]
    picked: str | None = questionary.select(
        "Back to the state just before which prompt?", choices=choices, use_shortcuts=False, use_jk_keys=False
    ).unsafe_ask()
    return picked


def _title(prompt: conversation.PromptRow, one: checkpoints.Checkpoint) -> str:
    from cli.output import one_line, relative_time

    return one_line(f"#{one.number:<4} {relative_time(prompt.at):<11} {prompt.excerpt}", 74)
