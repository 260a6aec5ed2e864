"""The text of `--models`: `openai:gpt-5,temperature=0.7;anthropic:claude-opus-5,weight=2`."""

from collections import Counter
from dataclasses import dataclass, replace

from pydantic import ValidationError

from warpsmith.base import UsageError, find_nearest
from warpsmith.llm.providers import Provider, find_provider
from warpsmith.llm.settings import SHAPING, Settings

EXAMPLE = "openai:gpt-5,temperature=0.7"
UNSHOWN = ("base_url", "key_env")  # where a key may stand by mistake
SECRETS = ("key", "api_key", "token", "password", "secret")


@dataclass(frozen=True)
class ModelSpec:
    """One model's provider, name and settings."""

    provider: Provider
    model: str
    settings: Settings
    number: int = 1  # tells models apart that differ only in what a name does not show, as an address

    @property
    def name(self) -> str:
        """The name with every setting that changes an answer."""
        usual = Settings()
        shaped = [(field, getattr(self.settings, field)) for field in SHAPING]
        shown = [f",{field}={value}" for field, value in shaped if value != getattr(usual, field)]
        return f"{self.provider.name}:{self.model}{''.join(shown)}{f'#{self.number}' if self.number > 1 else ''}"


def parse_models(text: str, base: Settings | None = None) -> tuple[ModelSpec, ...]:
    """Parse a list of models; `base` holds the default settings."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise UsageError(f"The list of models is empty. Write PROVIDER:MODEL, for example {EXAMPLE}.")
    found: list[ModelSpec] = []
    for part in parts:
        spec = parse_model(part, base)
        if spec in found:
            raise UsageError(f"Model {spec.name} is listed twice. To ask it more often, write weight=2.")
        found.append(spec)
    return _number_duplicates(found)


def parse_model(text: str, base: Settings | None = None) -> ModelSpec:
    """Parse one model. Raise UsageError for an unreadable part."""
    head, *rest = (part.strip() for part in text.split(","))
    provider, colon, model = head.partition(":")
    if not colon or not model.strip():
        raise UsageError(f"Model {head!r} is not PROVIDER:MODEL. Write for example {EXAMPLE}.")
    row = find_provider(provider.strip())
    settings = _parse_settings(model.strip(), rest, base or Settings())
    if row.base_url is None and row.name == "openai-compatible" and settings.base_url is None:
        raise UsageError(f"Model {head} needs an address: {head},base_url=http://HOST:PORT/v1")
    return ModelSpec(row, model.strip(), settings)


def _parse_settings(model: str, words: list[str], base: Settings) -> Settings:
    """Return the settings of a model's text."""
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        # The command line is saved with a run and shown by `ps`, so a key must not stand in it.
        if name.lower() in SECRETS:
            raise UsageError(f"Setting {name} of {model}: a key is never given here. Name its variable: key_env=NAME")
        _check_name(model, name, bool(equals), given)
        given[name] = value
    try:
        return Settings.model_validate({**base.model_dump(), **given})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        reason = first["msg"].removeprefix("Value error, ")
        # The value may be a key that was given by mistake, so it is not repeated in the message.
        shown = "not usable" if name in UNSHOWN else repr(given.get(name))
        raise UsageError(f"Setting {name} of {model} is {shown}: {reason}.") from None


def _check_name(model: str, name: str, has_value: bool, given: dict[str, str]) -> None:
    """Raise UsageError for an unknown or repeated setting."""
    known = list(Settings.model_fields)
    if name not in known:
        close = find_nearest(name, known, most=1)
        guess = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"Setting {name!r} of {model} does not exist.{guess} Known are {', '.join(known)}.")
    if not has_value:
        raise UsageError(f"Setting {name} of {model} has no value. Write {name}=VALUE.")
    if name in given:
        raise UsageError(f"Setting {name} of {model} is given twice.")


def _number_duplicates(specs: list[ModelSpec]) -> tuple[ModelSpec, ...]:
    """Return the specs with distinct names."""
    seen: Counter[str] = Counter()
    found = []
    for spec in specs:
        seen[spec.name] += 1
        found.append(replace(spec, number=seen[spec.name]))
    return tuple(found)
