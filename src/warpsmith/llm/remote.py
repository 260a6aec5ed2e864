"""A provider's model: one request, one answer or failure."""

import asyncio
import functools
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pydantic import SecretStr

from warpsmith.llm.concurrency import Gate
from warpsmith.llm.dialects import DIALECTS, ClientParts
from warpsmith.llm.errors import RequestFailed, TimedOut
from warpsmith.llm.model import ModelAnswer, Prompt
from warpsmith.llm.prices import Tariff
from warpsmith.llm.spec import ModelSpec

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as Client
    from pydantic_ai.settings import ModelSettings


class RemoteModel:
    """One model of one provider; each request opens its own connection."""

    def __init__(self, spec: ModelSpec, key: SecretStr | None, gate: Gate) -> None:
        self._spec = spec
        self._key = key
        self._gate = gate
        self._tariff = Tariff.of(spec)

    @property
    def name(self) -> str:
        """The model's name with its settings."""
        return self._spec.name

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r})"

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Send one request when the provider's limit allows it."""
        from warpsmith.llm.seam import translate_answer

        async with self._gate:
            start = time.perf_counter()
            outcome = await self._attempt(prompt)
            seconds = time.perf_counter() - start
        if isinstance(outcome, RequestFailed):
            raise outcome  # here, where no foreign exception with the request and its headers is its context
        return translate_answer(outcome, self.name, seconds, self._tariff, self._key)

    async def _attempt(self, prompt: Prompt) -> "ModelResponse | RequestFailed":
        """Make one request; return response or failure."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        from warpsmith.llm.seam import FOREIGN, translate_failure

        message = ModelRequest(parts=[UserPromptPart(prompt.user)], instructions=prompt.system or None)
        timeout_s = self._spec.settings.timeout_s
        try:
            # One limit for connecting and reading: the client's own timeout restarts with each received byte.
            async with asyncio.timeout(timeout_s), self._client() as client:
                return await model_request(client, [message], model_settings=self._settings(), instrument=False)
        except TimeoutError:
            return TimedOut(self.name, f"no whole answer within {timeout_s:g} s")
        except FOREIGN as error:
            return translate_failure(error, self.name, self._key)

    @asynccontextmanager
    async def _client(self) -> "AsyncIterator[Client]":
        """Open the provider's client for one request."""
        import httpx2

        spec = self._spec
        address = spec.settings.base_url or spec.provider.base_url
        # No redirects: they would carry the key to another host.
        async with httpx2.AsyncClient(
            verify=_load_certificates(), timeout=spec.settings.timeout_s, follow_redirects=False
        ) as http:
            yield DIALECTS[spec.provider.dialect](ClientParts(spec.provider.name, spec.model, self._key, address, http))

    def _settings(self) -> "ModelSettings":
        """Return the settings in the client library's form."""
        from pydantic_ai.settings import ModelSettings

        ours = self._spec.settings
        # Asking again is our own affair: a library's retries would neither show nor count.
        wanted = ModelSettings(max_tokens=ours.max_tokens, timeout=ours.timeout_s, max_retries=0)
        if ours.temperature is not None:
            wanted["temperature"] = ours.temperature
        if ours.effort is not None:
            wanted["thinking"] = False if ours.effort == "none" else ours.effort
        return wanted


@functools.cache
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates once: loading takes longer than a connection."""
    import httpx2

    return httpx2.create_ssl_context()
