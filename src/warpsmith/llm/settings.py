"""Settings of one model, each with its bounds."""

import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from warpsmith.llm.model import Frozen

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
SHAPING = ("temperature", "max_tokens", "effort")  # what changes an answer; these stand in a model's name


class Price(Frozen):
    """Dollars per million tokens, in and out; written `1.25/10`, or `0` for both."""

    input_usd: float = Field(ge=0, allow_inf_nan=False)
    output_usd: float = Field(ge=0, allow_inf_nan=False)

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of the tokens in dollars."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


class Settings(Frozen):
    """Settings of one model; the key is never one of them."""

    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    max_tokens: int = Field(default=16_384, ge=1, le=1_000_000)
    effort: Effort | None = None
    timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    concurrency: int = Field(default=4, ge=1, le=1000)
    attempts: int = Field(default=5, ge=1, le=100)
    weight: float = Field(default=1.0, gt=0, le=1e6)
    base_url: str | None = None
    key_env: str | None = None
    usd_per_mtok: Price | None = None

    @field_validator("usd_per_mtok", mode="before")
    @classmethod
    def _price(cls, value: Any) -> Any:
        """Parse `2` for both directions or `1.25/10` for in and out."""
        if not isinstance(value, str | int | float):
            return value
        # One number is the price of both directions.
        parts = str(value).split("/")
        if len(parts) > 2:
            raise ValueError("give one number, or IN/OUT")
        return {"input_usd": parts[0], "output_usd": parts[-1]}

    @field_validator("key_env")
    @classmethod
    def _variable(cls, value: str | None) -> str | None:
        """Refuse a value that is no variable name."""
        # A key pasted in place of the variable's name has small letters or dashes.
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
            raise ValueError("give the name of a variable, in capitals, such as OPENAI_API_KEY")
        return value

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        """Refuse an address with a password."""
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("give a whole address, such as http://localhost:8000/v1")
        # Addresses stand in logs and transcripts, where a password must not appear.
        if parts.username or parts.password or parts.query:
            raise ValueError("an address may hold neither a password nor a query; name the key's variable with key_env")
        return value.rstrip("/")
