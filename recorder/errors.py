"""What can go wrong, each kind with the exit code of the command line's contract.

RecorderError
├── UsageProblem      2   the words of a command are off
├── NotFound          3   no such session, checkpoint, file or home
├── Refused           4   it would lose or overwrite something; nothing was changed
├── IntegrityFailure  5   stored bytes are not what was stored
├── Failed            1   it did not work; everything is as before
│   ├── StoreFailure      the shadow store or git failed
│   └── LogFailure        the event log could not be read or written
│       └── Conflict      another writer appended first: reload and decide again
"""


class RecorderError(Exception):
    """A failure that a person is told of in one sentence.

    `code` is stable and for programs; `details` go into the JSON error beside the message.
    """

    exit_code = 1
    code = "failed"

    def __init__(self, message: str, *, code: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if code is not None:
            self.code = code


class UsageProblem(RecorderError):
    exit_code = 2
    code = "usage"


class NotFound(RecorderError):
    exit_code = 3
    code = "not_found"


class Refused(RecorderError):
    exit_code = 4
    code = "refused"


class IntegrityFailure(RecorderError):
    exit_code = 5
    code = "integrity"


class Failed(RecorderError):
    """It did not work and everything is as before."""


class StoreFailure(Failed):
    code = "store"


class LogFailure(Failed):
    code = "log"


class Conflict(LogFailure):
    """Another writer appended to the stream, or moved the log file's position, first."""

    code = "conflict"
