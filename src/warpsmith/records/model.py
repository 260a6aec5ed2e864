"""The root of every model here: frozen, closed to unknown keys, JSON in and out."""

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError


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
    def read(cls, text: str | bytes) -> Self | str:
        """The value a line of JSON holds, or what is wrong with it."""
        try:
            return cls.parse(text)
        except ValidationError as error:
            return first_wrong(error)


def first_wrong(error: ValidationError) -> str:
    """The first thing that is wrong with a value, and where."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
