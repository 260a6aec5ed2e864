"""JSON objects inside other text, as language models write them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

OPENING = re.compile(r"[{\[]")


def find_json_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield every JSON object of a text in order, alone or in a list."""
    decoder, place = json.JSONDecoder(strict=False), 0
    while (opening := OPENING.search(text, place)) is not None:
        try:
            found, place = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):  # a number of thousands of digits is a plain ValueError
            place = opening.start() + 1
            continue
        yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict))
