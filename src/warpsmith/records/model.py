"""The root of every model here: frozen, closed to unknown keys, JSON in and out."""

import reprlib
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from warpsmith.base import UsageError

LONGEST_NAME = 4096  # characters, as of a path
SHOWN = 80  # characters of a wrong value in a message
MOST_SAID = 500  # characters of what pydantic says, which may repeat the value
Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]


class Model(BaseModel):
    """A frozen value; `text()` and `parse()` are its JSON form."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")

    def text(self) -> str:
        """One line of JSON."""
        return self.model_dump_json()

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """The value a line of JSON holds; pydantic's `ValidationError` when it holds none."""
        return cls.model_validate_json(text)

    @classmethod
    def made_of(cls, **fields: object) -> Self:
        """Return the value of a caller's fields. Raise UsageError that names the first that is wrong."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise UsageError(
                f"{first_wrong(error)}; it is {shortened(error.errors(include_url=False)[0]['input'])}."
            ) from None

    @classmethod
    def read(cls, text: str | bytes) -> Self | str:
        """The value a line of JSON holds, or what is wrong with it."""
        try:
            return cls.parse(text)
        except ValidationError as error:
            return first_wrong(error)


def first_wrong(error: ValidationError) -> str:
    """The first thing that is wrong with a value, and where."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part)[:SHOWN] for part in first["loc"])
    said = first["msg"] if len(first["msg"]) <= MOST_SAID else f"{first['msg'][:MOST_SAID]}…"
    return f"{where}: {said}".removeprefix(": ")


def shortened(value: object) -> str:
    """Return the repr of a user's value, cut where it is longer than a message has room for."""
    cut = reprlib.Repr()
    cut.maxstring = cut.maxother = cut.maxlong = SHOWN
    try:
        return cut.repr(value)
    except ValueError:  # a number of more digits than Python prints
        return f"a {type(value).__name__}"
