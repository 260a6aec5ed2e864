"""Where a record was made: hardware, software, and how well the candidate was confined."""

from datetime import datetime

from warpsmith.records.model import Model, Name


class Confined(Model):
    """What confinement a child really got; `missing` says what the machine refused and why."""

    achieved: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def at_floor(self) -> bool:
        """Whether untrusted code may be graded: Landlock, seccomp and another uid."""
        return {"landlock", "seccomp", "uid"} <= set(self.achieved)


class Environment(Model):
    """The machine and its software at the moment of evaluation."""

    device: Name
    hardware: Name  # part of a record's key: same hardware, comparable times
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
