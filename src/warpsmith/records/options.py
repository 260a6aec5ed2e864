"""The options of an evaluation as its record holds them, and their JSON form."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    PositiveInt,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from warpsmith.records.model import Model, Name
from warpsmith.records.task import Group

USUAL_GPU = "H200"
VIRTUAL = "vgpu"
CLAIM, SEARCH = "claim", "search"
Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
Effort = Literal["sketch", "usual", "thorough"]
EFFORT_OF_TIER: Mapping[str, Effort] = {SEARCH: "usual", CLAIM: "thorough"}
EFFORTS: Mapping[str, Effort] = {"sketch": "sketch", "usual": "usual", "thorough": "thorough"}


class Defence(StrEnum):
    """A part of an evaluation that can be left out, to see whether the others suffice."""

    STATIC = "static"
    LINK = "link"
    VIRTUAL = "virtual"  # the virtual GPU before a real one


class StoredOptions(Model):
    """The JSON form of the options; part of a record's key."""

    device: Name = "auto"
    cases: tuple[Group, ...] = ()
    seeds: tuple[Seed, ...] = ()  # drawn by the evaluator, saved so that the record can be reproduced
    scheme: PositiveInt = 1  # how test inputs follow from the seeds; a record without it used the first scheme
    cache: Name = "cold"
    extra: Mapping[Name, Name] = Field(default_factory=dict)


class EvaluationOptions(Model):
    """The options that decide the result of an evaluation.

    `effort` is one knob for both kinds of machine: on the virtual GPU it sets the calls of the check, on a GPU a
    thorough evaluation is timed at the tier `claim` and every other at the tier `search`.
    """

    device: Name = "auto"
    cases: tuple[Group, ...] = ()
    seeds: tuple[Seed, ...] = ()
    scheme: PositiveInt = 1
    cache: Name = "cold"
    gpu: Name = USUAL_GPU  # that the virtual GPU models
    effort: Effort = "usual"
    without: frozenset[Name] = frozenset()
    until: Name = ""  # the last stage to run; empty: all stages
    most_cases: PositiveInt | None = None
    baselines: tuple[Name, ...] = ()  # modes of torch; empty: all modes
    is_seed_given: bool = False
    other: Mapping[Name, Name] = Field(default_factory=dict)  # options of a record that this version does not know

    @property
    # JSON keys of the first version stay. New options go under `extra` as text, so that keys of old records do not
    # change.
    def tier(self) -> Literal["search", "claim"]:
        """The tier at which a GPU times a kernel."""
        return "claim" if self.effort == "thorough" else "search"

    @property
    def is_search_tier(self) -> bool:
        """Whether a record says that its times were measured at the tier `search`."""
        return self.device != VIRTUAL and "effort" in self.model_fields_set and self.tier == SEARCH

    @model_validator(mode="before")
    @classmethod
    def _read_extra(cls, fields: Any) -> Any:
        """Read the options that the JSON form keeps as text under `extra`."""
        if not isinstance(fields, dict) or not isinstance(fields.get("extra"), Mapping):
            return fields
        # Plain fields win over texts: a caller may pass both.
        plain = {name: value for name, value in fields.items() if name != "extra"}
        return {**_read_texts(fields["extra"], plain.get("device")), **plain}

    @model_serializer(mode="plain")
    def _serialize(self) -> dict[str, Any]:
        """Return the JSON form, which archives and records keep."""
        return {
            # These keys and their order are those of the first version (tests/golden).
            "device": self.device,
            "cases": self.cases,
            "seeds": self.seeds,
            "scheme": self.scheme,
            "cache": self.cache,
            "extra": self._extra(),
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Mapping[str, Any], handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        return handler(StoredOptions.__pydantic_core_schema__)

    def _extra(self) -> dict[str, str]:
        """Return the effective options for `extra`."""
        # Only options that a caller has set are written: a new default must not change the keys of old records.
        given, found = self.model_fields_set, dict(self.other)
        # An option without effect on a machine stays out, so equal evaluations have equal keys.
        if self.device == VIRTUAL and "gpu" in given:
            found["gpu"] = self.gpu
        if self.device != VIRTUAL and "effort" in given:
            # Records name the tier; `effort` came later and is derived from it.
            found["tier"] = self.tier
        if self.without:
            found["without"] = ",".join(sorted(self.without))
        if self.device == VIRTUAL and self.effort != "usual":
            found["effort"] = self.effort
        texts = {"until": self.until, "most_cases": str(self.most_cases or ""), "baselines": ",".join(self.baselines)}
        found |= {name: text for name, text in texts.items() if text}
        return found | ({"seed": "given"} if self.is_seed_given else {})


def _read_texts(extra: Mapping[str, str], device: object) -> dict[str, Any]:
    """Parse the texts under `extra`; unknown texts become `other`."""
    fields: dict[str, Any] = {}
    other: dict[str, str] = {}
    for name, text in extra.items():
        # An unknown text is kept: a record of a newer version is written back as it was read.
        if not isinstance(text, str):
            # No text: pydantic reports it under the name of the option.
            other[name] = text  # the validation of `other` names it
        elif name in ("gpu", "until"):
            fields[name] = text
        elif name == "tier" and device != VIRTUAL and text in EFFORT_OF_TIER:
            fields["effort"] = EFFORT_OF_TIER[text]
        elif name == "effort" and device == VIRTUAL and text in EFFORTS:
            fields["effort"] = EFFORTS[text]
        elif name in ("without", "baselines"):
            fields[name] = tuple(text.split(","))
        elif name == "most_cases" and text.isdecimal():
            fields[name] = int(text)
        elif name == "seed" and text == "given":
            fields["is_seed_given"] = True
        else:
            other[name] = text
    return fields | ({"other": other} if other else {})
