"""Write the JSON schemas of the data model to docs/schema."""

import json
from pathlib import Path

from pydantic import TypeAdapter

from warpsmith.records import Finding, Record, Task

FOLDER = Path(__file__).parents[1] / "docs" / "schema"

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for model in (Record, Task, Finding):
        text = json.dumps(TypeAdapter(model).json_schema(), indent=1, ensure_ascii=False)
        (FOLDER / f"{model.__name__.lower()}.json").write_text(text + "\n")
