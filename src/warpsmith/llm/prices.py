"""The cost of a request, by settings or `genai-prices`."""

from dataclasses import dataclass

from warpsmith.llm.model import Prompt
from warpsmith.llm.settings import Price
from warpsmith.llm.spec import ModelSpec

OVERHEAD_TOKENS = 64  # what a protocol adds around the text of a prompt


@dataclass(frozen=True)
class Tariff:
    """The price of one model: set, free, or looked up by provider and name."""

    provider: str
    model: str
    base_url: str | None
    given: Price | None

    @classmethod
    def of(cls, spec: ModelSpec) -> "Tariff":
        """Return a model's tariff; a free provider's costs nothing."""
        given = spec.settings.usd_per_mtok or (Price(input_usd=0, output_usd=0) if spec.provider.free else None)
        # The price table knows one OpenAI, whatever protocol is spoken.
        provider = spec.provider.name.removesuffix("-chat")
        return cls(provider, spec.model, spec.settings.base_url or spec.provider.base_url, given)

    def usd(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float | None:
        """Return the dollars for the tokens, or None if unknown; cached tokens are part of the input."""
        if self.given is not None:
            return self.given.usd(input_tokens, output_tokens)
        return _listed_price_usd(self, input_tokens, output_tokens, cached_tokens)

    def bound_usd(self, prompt: Prompt, max_tokens: int) -> float | None:
        """Return an upper bound of a request's cost in US dollars.

        No token is shorter than a byte, and no answer is longer than `max_tokens`.
        """
        # Bytes bound the tokens of every tokenizer, so the budget holds for unknown ones too.
        size = len(prompt.system.encode()) + len(prompt.user.encode()) + OVERHEAD_TOKENS
        return self.usd(size, max_tokens)


def _listed_price_usd(tariff: Tariff, input_tokens: int, output_tokens: int, cached_tokens: int) -> float | None:
    """Return the cost by the price table, or None for an unknown model."""
    import genai_prices

    usage = genai_prices.Usage(
        input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=cached_tokens or None
    )
    try:
        if tariff.provider == "openai-compatible":
            found = genai_prices.calc_price(usage, tariff.model, provider_api_url=tariff.base_url)
        else:
            found = genai_prices.calc_price(usage, tariff.model, provider_id=tariff.provider)
    except LookupError:
        return None
    return float(found.total_price)
