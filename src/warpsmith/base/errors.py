"""The exceptions of the package. A failing kernel is a value, never an exception."""


class WarpsmithError(Exception):
    """Root of all exceptions; `exit_code` is the exit status of the command line."""

    exit_code = 3


class UsageError(WarpsmithError):
    """Wrong user input. The message holds the noun, the value, the bound and the way out."""

    exit_code = 2


class MachineError(WarpsmithError):
    """A tool, driver or permission that this machine lacks, and how to get it."""


class ArchiveError(MachineError):
    """The archive cannot be read or written now, and the way out."""


class DeviceMemoryError(MachineError):
    """Other processes hold the memory of a GPU; the evaluation can be repeated later."""


class UnprovenError(WarpsmithError):
    """A kernel that was not evaluated fully."""

    exit_code = 4


class HarnessError(WarpsmithError):
    """A bug of warpsmith itself; it never becomes a score."""
