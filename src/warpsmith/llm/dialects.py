"""One function per protocol, which builds a `pydantic_ai` client."""

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from warpsmith.llm.errors import MissingLibrary
from warpsmith.llm.providers import Dialect

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as Client

NO_KEY = "none"  # the libraries insist on a key, and would take another provider's from the environment


@dataclass(frozen=True)
class ClientParts:
    """The name, key and address that a client is built from."""

    provider: str
    model: str
    key: SecretStr | None
    base_url: str | None
    http: "httpx2.AsyncClient"

    @property
    def plain_key(self) -> str:
        """The unwrapped key, for the call that builds a client."""
        return self.key.get_secret_value() if self.key else NO_KEY


def _open_responses(wire: ClientParts) -> "Client":
    """Open a client of OpenAI's Responses API."""
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=wire.base_url, api_key=wire.plain_key, http_client=wire.http)
    return OpenAIResponsesModel(wire.model, provider=provider)


def _open_chat(wire: ClientParts) -> "Client":
    """Open a client of the chat completions API."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    assert wire.base_url is not None, f"the row of {wire.provider} has no address"
    provider = OpenAICompatibleProvider(
        wire.provider, base_url=wire.base_url, api_key=wire.plain_key, http_client=wire.http
    )
    return OpenAIChatModel(wire.model, provider=provider)


def _open_anthropic(wire: ClientParts) -> "Client":
    """Open a client of Anthropic's API."""
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key=wire.plain_key, base_url=wire.base_url, http_client=wire.http)
    return AnthropicModel(wire.model, provider=provider)


def _open_google(wire: ClientParts) -> "Client":
    """Open a client of Google's API."""
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=wire.plain_key, base_url=wire.base_url, http_client=wire.http)
    return GoogleModel(wire.model, provider=provider)


# Libraries whose debug lines print headers and bodies as a server sent them, cookies and echoed keys included.
TALKATIVE = ("httpcore2", "openai", "anthropic", "google_genai")
MODULES = {
    Dialect.RESPONSES: "pydantic_ai.models.openai",
    Dialect.CHAT: "pydantic_ai.models.openai",
    Dialect.ANTHROPIC: "pydantic_ai.models.anthropic",
    Dialect.GOOGLE: "pydantic_ai.models.google",
}
DIALECTS: dict[Dialect, Callable[[ClientParts], "Client"]] = {
    Dialect.RESPONSES: _open_responses,
    Dialect.CHAT: _open_chat,
    Dialect.ANTHROPIC: _open_anthropic,
    Dialect.GOOGLE: _open_google,
}


def import_client(dialect: Dialect) -> None:
    """Import the client library of a dialect, or say how to install it.

    The import takes seconds, so it happens when a model is opened.
    """
    try:
        for module in ("pydantic_ai.direct", "genai_prices", MODULES[dialect], "warpsmith.llm.seam"):
            importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(
            f"Models need client libraries that are not installed ({error.name or error}). "
            "Run: pip install 'warpsmith[models]'"
        ) from None
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.INFO)
