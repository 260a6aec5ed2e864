"""From a name to a model that answers: key, price, places, budget and patience put together."""

import logging

from warpsmith.llm.dialects import load
from warpsmith.llm.ensemble import Ensemble, EnsembleMember
from warpsmith.llm.errors import UnknownPrice
from warpsmith.llm.gate import Gate
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
    """A model by name, `openai:gpt-5,temperature=0.7`; what the text does not set, `settings` do."""
    spec = parse_model(text, settings)
    return _open(spec, spend or Spend(), Gate(spec.settings.concurrency), patience)


def open_ensemble(text: str, spend: Spend | None = None) -> Ensemble:
    """The models of a `--models` text, on one budget; those of one provider share its places."""
    specs, purse = parse_models(text), spend or Spend()
    gates = {name: Gate(_places(specs, name)) for name in {spec.provider.name for spec in specs}}
    return Ensemble(
        [EnsembleMember(_open(spec, purse, gates[spec.provider.name]), spec.settings.weight) for spec in specs]
    )


def _places(specs: tuple[ModelSpec, ...], provider: str) -> int:
    """How many requests a provider takes at once: the least that its models say."""
    return min(spec.settings.concurrency for spec in specs if spec.provider.name == provider)


def _open(spec: ModelSpec, spend: Spend, gate: Gate, patience: Patience | None = None) -> LanguageModel:
    key = find_key(spec.provider, spec.settings, spec.name)
    load(spec.provider.dialect)
    tariff = Tariff.of(spec)
    _check_price(spec, tariff, spend)

    def bound(prompt: Prompt) -> float | None:
        return tariff.bound_usd(prompt, spec.settings.max_tokens)

    metered = MeteredModel(RemoteModel(spec, key, gate), spend, bound)
    return PatientModel(metered, patience or Patience(attempts=spec.settings.attempts))


def _check_price(spec: ModelSpec, tariff: Tariff, spend: Spend) -> None:
    """Say once that a price is unknown; with a budget to hold, refuse."""
    if tariff.usd(1, 1) is not None:
        return
    way = f"Give it: {spec.name},usd_per_mtok=IN/OUT (0 for a model that costs nothing)"
    if spend.budget_usd:
        raise UnknownPrice(
            f"The price of {spec.name} is unknown, so the budget of {spend.budget_usd:g} dollars "
            f"cannot be held. {way}, or leave --budget-usd out."
        )
    LOG.warning("the price of %s is unknown, so its dollars are not counted. %s.", spec.name, way)
