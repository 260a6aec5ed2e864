"""robust-kbench's `config_*.json` files, read without running code."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.base import UsageError, read_text

MOST_PRODUCTS = 10_000  # of settings, equal ones among them
MOST = 256  # cases: every product of their lists, past which nobody meant it
KINDS = ("single", "multi")


@dataclass(frozen=True)
class Setting:
    """Keyword arguments of `Model(...)` and `get_inputs(...)` for one case."""

    name: str
    init: Mapping[str, Any]
    input: Mapping[str, Any]

    @property
    def same(self) -> tuple[str, str]:
        """Key that settings with the same meaning share, whatever their names."""
        return json.dumps(self.init, sort_keys=True), json.dumps(self.input, sort_keys=True)


def read_settings(path: Path) -> list[Setting]:
    """Return a file's distinct settings."""
    config = _parse_object(path)
    found = [setting for kind in KINDS for setting in _products(path, config, kind)]
    first: dict[tuple[str, str], Setting] = {}
    for setting in found:
        # Equal settings under different names are one case.
        first.setdefault(setting.same, setting)
    unlike = list(first.values())
    if len(unlike) > MOST:
        raise UsageError(f"{path}: {len(unlike)} cases; at most {MOST} are taken. Shorten its lists.")
    if not unlike:
        raise UsageError(f"{path}: no case; it needs 'single_input_configs' and its like with at least one setting.")
    return unlike


def _parse_object(path: Path) -> Mapping[str, Any]:
    """Return the JSON object of a file. Raise UsageError with the line if it is invalid."""
    text = read_text(path)
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno}).") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON: {error}.") from None
    if not isinstance(config, dict):
        raise UsageError(f"{path}:1: the file holds a {type(config).__name__}; it must hold an object of settings.")
    return config


def _products(path: Path, config: Mapping[str, Any], kind: str) -> list[Setting]:
    """Return the settings of one kind, `single` or `multi`."""
    if not any(f"{kind}_{part}_configs" in config for part in ("init", "input", "shared")):
        return []
    inits, inputs, shared = (_list(path, config, f"{kind}_{part}_configs") for part in ("init", "input", "shared"))
    # Counted before the products are made: three short lists can multiply to millions.
    if (count := len(inits) * len(inputs) * len(shared)) > MOST_PRODUCTS:
        raise UsageError(
            f"{path}: {count} products of {kind} settings; at most {MOST_PRODUCTS} are read. Shorten its lists."
        )
    triples = [(a, b, c) for a in inits for b in inputs for c in shared]
    # Shared settings win over both, as in robust-kbench itself.
    return [Setting(f"{kind}_{i}", {**a, **c}, {**b, **c}) for i, (a, b, c) in enumerate(triples)]


def _list(path: Path, config: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return the list under a key. Raise UsageError for entries that are no objects."""
    found = config.get(key, [{}])
    entries = found if isinstance(found, list) else [found]
    for entry in entries:
        if not isinstance(entry, dict):
            line = next((i for i, row in enumerate(read_text(path).splitlines(), 1) if f'"{key}"' in row), 1)
            raise UsageError(f"{path}:{line}: key '{key}': {entry!r} is not an object of settings.")
    return entries or [{}]
