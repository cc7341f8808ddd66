"""How facts stored by older versions are brought to the structs of this one.

A struct in `recorder.events` may gain a field at its end, with a default, and nothing needs to be
done. Any other change raises the struct's `schema`, which makes the stored topic `<Class>.<schema>`,
and adds one function here under the *old* topic. It takes the stored fields in the struct's order, as
MessagePack holds them (an id is 16 bytes, a nested struct a list), and returns the next topic with its
fields. Stored bytes are never rewritten. Upcasts are applied one after the other, so each goes one
step only and is never touched again:

    UPCASTS = {"ToolCalled.1": tool_called_1}

    def tool_called_1(fields: list[Any]) -> tuple[str, list[Any]]:
        *kept, writes, files, background = fields
        return "ToolCalled.2", [*kept, {"none": "nothing"}.get(writes, writes), files, background]
"""

from __future__ import annotations

from recorder.eventlog.mapper import Upcast

UPCASTS: dict[str, Upcast] = {}
"""By old topic. Given to `open_log` by whoever opens the home."""
