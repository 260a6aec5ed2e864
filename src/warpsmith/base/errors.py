"""The exceptions of the package. A failing kernel is a value and never one of these.

WarpsmithError            exit code
├── UsageError        2   what the user gave cannot be used
├── MachineError      3   this machine lacks something that is needed
│   └── ArchiveError  3   the archive cannot be read or written: locked, full, broken
└── HarnessError      3   our fault
"""


class WarpsmithError(Exception):
    """The root; `exit_code` is what the command line returns for it."""

    exit_code = 3


class UsageError(WarpsmithError):
    """What the user gave cannot be used: the noun, the value, the bound and the way out."""

    exit_code = 2


class MachineError(WarpsmithError):
    """A tool, a driver or a permission that this machine lacks, with what provides it."""


class ArchiveError(MachineError):
    """The archive cannot be read or written now: what is wrong with it and the way out."""


class HarnessError(WarpsmithError):
    """A fault of warpsmith itself; never turned into a score."""
