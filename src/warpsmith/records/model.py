"""Base class of all models: frozen, closed to unknown keys, with a JSON form."""

import reprlib
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from warpsmith.base import UsageError

LONGEST_NAME = 4096  # characters, as of a path
SHOWN = 80  # characters of a wrong value in a message
MOST_SAID = 500  # characters of what pydantic says, which may repeat the value
Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]


class Model(BaseModel):
    """A frozen value with a JSON form."""

    # Closed to unknown keys: a misspelt field must not be dropped in silence. Records hold infinite errors, which JSON
    # lacks, so they are written as texts.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")

    def text(self) -> str:
        """Return one line of JSON."""
        return self.model_dump_json()

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read a line of JSON. Raise pydantic's ValidationError if it is invalid."""
        return cls.model_validate_json(text)

    @classmethod
    def from_fields(cls, **fields: object) -> Self:
        """Return a value from a caller's fields. Raise UsageError for the first wrong field."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise UsageError(
                f"{describe_error(error)}; it is {shorten_value(error.errors(include_url=False)[0]['input'])}."
            ) from None

    @classmethod
    def read(cls, text: str | bytes) -> Self | str:
        """Read a line of JSON, or return a sentence about its first error."""
        try:
            return cls.parse(text)
        except ValidationError as error:
            return describe_error(error)


def describe_error(error: ValidationError) -> str:
    """Return a sentence about the first error of a validation."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part)[:SHOWN] for part in first["loc"])
    # pydantic repeats a wrong value in its message, and the value may be a whole kernel.
    said = first["msg"] if len(first["msg"]) <= MOST_SAID else f"{first['msg'][:MOST_SAID]}…"
    return f"{where}: {said}".removeprefix(": ")


def shorten_value(value: object) -> str:
    """Return the repr of a user's value, cut to 80 characters."""
    # reprlib cuts a value before it is formatted, so a huge value costs little.
    cut = reprlib.Repr()
    cut.maxstring = cut.maxother = cut.maxlong = SHOWN
    try:
        return cut.repr(value)
    except ValueError:  # a number of more digits than Python prints
        return f"a {type(value).__name__}"
