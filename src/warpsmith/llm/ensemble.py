"""Any number of models with weights. Which one to ask is the caller's choice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import UsageError
from warpsmith.llm.model import LanguageModel
from warpsmith.llm.replay import Replayer, Transcript, TranscriptWriter
from warpsmith.llm.tape import Tape, Voice


@dataclass(frozen=True)
class EnsembleMember:
    """A model and how often to ask it, beside the others."""

    model: LanguageModel
    weight: float = 1.0


class Ensemble:
    """Models by name, in the order they were given; none at all is an ensemble too, and is false."""

    def __init__(self, members: Sequence[EnsembleMember | LanguageModel] = ()) -> None:
        self.members = tuple(one if isinstance(one, EnsembleMember) else EnsembleMember(one) for one in members)
        names = [member.model.name for member in self.members]
        if len(set(names)) < len(names):
            raise UsageError(f"Two models have one name in {', '.join(names)}. Give them different names.")

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[LanguageModel]:
        return (member.model for member in self.members)

    def __getitem__(self, name: str) -> LanguageModel:
        for member in self.members:
            if member.model.name == name:
                return member.model
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, which tell settings apart."""
        return tuple(member.model.name for member in self.members)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights, in the order of the names."""
        return tuple(member.weight for member in self.members)

    def recorded(self, path: Path) -> "Ensemble":
        """The same models, each exchange of them written to one file."""
        voices = [Voice(name=member.model.name, weight=member.weight) for member in self.members]
        tape = Tape(path, voices)
        return Ensemble(
            [EnsembleMember(TranscriptWriter(member.model, tape), member.weight) for member in self.members]
        )

    @classmethod
    def replayed(cls, path: Path) -> "Ensemble":
        """The models of a recording, which answer what they answered then."""
        recording = Transcript(path)
        return cls([EnsembleMember(Replayer(recording, voice.name), voice.weight) for voice in recording.voices])
