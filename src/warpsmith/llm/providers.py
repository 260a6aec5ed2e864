"""Providers of models, and their keys."""

import os
from dataclasses import dataclass
from enum import StrEnum

from pydantic import SecretStr

from warpsmith.base import UsageError, find_nearest
from warpsmith.llm.errors import MissingKey
from warpsmith.llm.settings import Settings


class Dialect(StrEnum):
    """A provider's protocol; each has a function in `dialects`."""

    RESPONSES = "responses"
    CHAT = "chat"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"


@dataclass(frozen=True)
class Provider:
    """One provider: name, key variables, protocol and address.

    Without `base_url` the client library knows the address. `keyless` providers need no key; `free` ones cost nothing.
    """

    name: str
    keys: tuple[str, ...]
    dialect: Dialect
    base_url: str | None = None
    keyless: bool = False
    free: bool = False


PROVIDERS = (
    Provider("openai", ("OPENAI_API_KEY",), Dialect.RESPONSES),
    Provider("openai-chat", ("OPENAI_API_KEY",), Dialect.CHAT, "https://api.openai.com/v1"),
    Provider("anthropic", ("ANTHROPIC_API_KEY",), Dialect.ANTHROPIC),
    Provider("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), Dialect.GOOGLE),
    Provider("openrouter", ("OPENROUTER_API_KEY",), Dialect.CHAT, "https://openrouter.ai/api/v1"),
    Provider("vllm", ("VLLM_API_KEY",), Dialect.CHAT, "http://localhost:8000/v1", keyless=True, free=True),
    Provider("ollama", ("OLLAMA_API_KEY",), Dialect.CHAT, "http://localhost:11434/v1", keyless=True, free=True),
    Provider("openai-compatible", (), Dialect.CHAT, keyless=True),  # any other server, by base_url and key_env
)


def find_provider(name: str) -> Provider:
    """Return a named provider. Raise UsageError with near names."""
    rows = {row.name: row for row in PROVIDERS}
    if name in rows:
        return rows[name]
    close = find_nearest(name, rows, most=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(f"Model provider {name!r} does not exist.{guess} Known are {', '.join(rows)}.")


def key_variables() -> tuple[str, ...]:
    """Return every environment variable that can hold a key."""
    return tuple(dict.fromkeys(variable for row in PROVIDERS for variable in row.keys))


def find_key(row: Provider, settings: Settings, model: str) -> SecretStr | None:
    """Return the wrapped key; None for keyless providers."""
    variables = (settings.key_env,) if settings.key_env else row.keys
    for variable in variables:
        # A line break in a key would end the HTTP header that carries it.
        if text := os.environ.get(variable, "").strip():
            if not (text.isascii() and text.isprintable() and " " not in text):
                raise MissingKey(f"{variable} holds characters that no key has; {model} needs it. Set it again.")
            return SecretStr(text)
    if row.keyless and not settings.key_env:
        return None
    named = " or ".join(variables)
    raise MissingKey(f"{model} needs a key, and {named} is not set. Run: export {variables[0]}=YOUR-KEY")
