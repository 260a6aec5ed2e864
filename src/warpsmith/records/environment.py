"""Environment of a record: hardware, software and confinement."""

from datetime import datetime
from enum import StrEnum

from warpsmith.records.model import Model, Name


class ConfinementForm(StrEnum):
    """A combination of parts that is enough for untrusted code (design/confinement.md)."""

    OTHER_USER = "another user"
    NAMESPACES = "namespaces of the same user"


# In order of strength. Landlock and seccomp hold in both; the first form separates the child from its user's files and
# processes by its user id, the second by what it can see and name.
FORMS = {
    ConfinementForm.OTHER_USER: {"landlock", "seccomp", "uid"},
    ConfinementForm.NAMESPACES: {
        *("landlock", "seccomp", "capabilities", "no_new_privs"),
        *("user_ns", "pid_ns", "mount_ns", "ipc_ns", "readonly_root", "private_tmp"),
    },
}


class Confined(Model):
    """Confinement that a child process got, and the refused parts with reasons."""

    achieved: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def form(self) -> ConfinementForm | None:
        """The strongest form that holds, or None if no form does."""
        # FORMS is ordered by strength, so the first form that holds is the strongest.
        return next((form for form, parts in FORMS.items() if parts <= set(self.achieved)), None)

    @property
    def at_floor(self) -> bool:
        """Whether untrusted code may be evaluated: one of the two forms holds."""
        return self.form is not None


class Environment(Model):
    """The machine and its software when an evaluation began."""

    device: Name
    hardware: Name  # part of a record's key: same hardware, comparable times
    uuid: Name = ""  # of the card, to tell equal ones apart; not part of the key
    driver: Name = ""
    toolchain: Name = ""
    torch: Name = ""
    python: Name = ""
    clocks_mhz: tuple[int, int] | None = None  # SM and memory
    throttling: tuple[Name, ...] = ()
    others: int = 0  # processes on the GPU when the evaluation began; those of other evaluations here are among them
    confined: Confined = Confined()
    package: Name = ""
    when: datetime | None = None  # the evaluation began, UTC; records of before have none
