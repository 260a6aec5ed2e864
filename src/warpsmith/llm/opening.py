"""Opening of models by name, with budget and retries."""

import logging

from warpsmith.llm.concurrency import Gate
from warpsmith.llm.dialects import import_client
from warpsmith.llm.ensemble import Ensemble, EnsembleMember
from warpsmith.llm.errors import UnknownPrice
from warpsmith.llm.model import LanguageModel, Prompt
from warpsmith.llm.patience import Patience, PatientModel
from warpsmith.llm.prices import Tariff
from warpsmith.llm.providers import find_key
from warpsmith.llm.remote import RemoteModel
from warpsmith.llm.settings import Settings
from warpsmith.llm.spec import ModelSpec, parse_model, parse_models
from warpsmith.llm.spend import MeteredModel, Spend

LOG = logging.getLogger(__name__)


def open_model(
    text: str, settings: Settings | None = None, spend: Spend | None = None, patience: Patience | None = None
) -> LanguageModel:
    """Open a model by name, such as `openai:gpt-5,temperature=0.7`; `settings` are defaults."""
    spec = parse_model(text, settings)
    return _open_spec(spec, spend or Spend(), Gate(spec.settings.concurrency), patience)


def open_ensemble(text: str, spend: Spend | None = None) -> Ensemble:
    """Open the models of a `--models` text on one budget; models of one provider share its request limit."""
    specs, purse = parse_models(text), spend or Spend()
    gates = {name: Gate(_request_limit(specs, name)) for name in {spec.provider.name for spec in specs}}
    return Ensemble(
        [EnsembleMember(_open_spec(spec, purse, gates[spec.provider.name]), spec.settings.weight) for spec in specs]
    )


def _request_limit(specs: tuple[ModelSpec, ...], provider: str) -> int:
    """Return a provider's smallest request limit."""
    return min(spec.settings.concurrency for spec in specs if spec.provider.name == provider)


def _open_spec(spec: ModelSpec, spend: Spend, gate: Gate, patience: Patience | None = None) -> LanguageModel:
    """Open one model with retries, budget and request limit."""
    key = find_key(spec.provider, spec.settings, spec.name)
    import_client(spec.provider.dialect)
    tariff = Tariff.of(spec)
    _check_price(spec, tariff, spend)

    def bound(prompt: Prompt) -> float | None:
        """Return the highest cost of a request in US dollars; None if unknown."""
        return tariff.bound_usd(prompt, spec.settings.max_tokens)

    # The order matters: each attempt reserves its own cost, so retries wrap the meter, and the meter wraps the request.
    metered = MeteredModel(RemoteModel(spec, key, gate), spend, bound)
    return PatientModel(metered, patience or Patience(attempts=spec.settings.attempts))


def _check_price(spec: ModelSpec, tariff: Tariff, spend: Spend) -> None:
    """Warn of an unknown price; with a budget, raise UnknownPrice."""
    # Two tokens suffice to learn whether a price exists.
    if tariff.usd(1, 1) is not None:
        return
    way = f"Give it: {spec.name},usd_per_mtok=IN/OUT (0 for a model that costs nothing)"
    if spend.budget_usd:
        raise UnknownPrice(
            f"The price of {spec.name} is unknown, so the budget of {spend.budget_usd:g} dollars "
            f"cannot be held. {way}, or leave --budget-usd out."
        )
    LOG.warning("the price of %s is unknown, so its dollars are not counted. %s.", spec.name, way)
