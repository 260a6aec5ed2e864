"""Exception classes of the package."""


class WarpsmithError(Exception):
    """Root of all exceptions; `exit_code` is the command's exit status."""

    exit_code = 3


class UsageError(WarpsmithError):
    """Wrong user input, with the value, the bound and a remedy."""

    exit_code = 2


class MachineError(WarpsmithError):
    """A missing tool, driver or permission, with the command that installs it."""


class PoolError(MachineError):
    """The resident pool ended or refuses a request; this process can evaluate instead."""


class ArchiveError(MachineError):
    """An archive that cannot be read or written, with a remedy."""


class DeviceMemoryError(MachineError):
    """A GPU whose memory other processes hold."""


class UnprovenError(WarpsmithError):
    """A kernel without a complete evaluation."""

    exit_code = 4


class HarnessError(WarpsmithError):
    """A bug of warpsmith; never a score."""
