"""How a test's child process is kept from what file modes forbid, also where the tests run as root."""

from __future__ import annotations

import os

_RIGHTS = "-dac_override,-dac_read_search"
BOUND_BY_MODES: list[str] = (
    ["setpriv", f"--bounding-set={_RIGHTS}", f"--inh-caps={_RIGHTS}"] if os.geteuid() == 0 else []
)
"""Put before a command: root without the right to pass over file modes. The same user, so that the
interpreter can be read wherever it lies."""
