"""Candidate: a kernel's text, task, direction, language and origin."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from warpsmith.base import digest_json
from warpsmith.records.model import Model, Name
from warpsmith.records.task import Direction


class Language(StrEnum):
    """Keys of the languages that come with the package."""

    TORCH = "torch"  # torch::Tensor functions and PYBIND11_MODULE, over our headers
    PLAIN = "plain"  # extern "C" functions over DLPack tensors and a stream


class Candidate(Model):
    """A kernel for one direction of one task."""

    task: Name
    direction: Direction
    source: str
    language: str = Field(default=Language.TORCH, pattern=r"^[a-z][a-z0-9_]{0,31}$")
    macros: Mapping[str, str] = Field(default_factory=dict)
    parents: tuple[Name, ...] = ()
    origin: Name = "user"

    @property
    def id(self) -> str:
        """Hash of task, direction, language, macros and source."""
        # Parents and origin are left out: they do not change the kernel. Archives and published records hold ids, so
        # the hashed list never changes (tests/golden).
        return digest_json([self.task, self.direction, str(self.language), dict(self.macros), self.source])
