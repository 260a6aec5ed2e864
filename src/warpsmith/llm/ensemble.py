"""Weighted models by name; the caller chooses among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import UsageError
from warpsmith.llm.model import LanguageModel
from warpsmith.llm.replay import Replayer, Transcript, TranscriptWriter
from warpsmith.llm.tape import TranscriptFile, TranscriptModel


@dataclass(frozen=True)
class EnsembleMember:
    """A model and its weight."""

    model: LanguageModel
    weight: float = 1.0


class Ensemble:
    """Models by name, in the order given. An empty ensemble is valid and false."""

    def __init__(self, members: Sequence[EnsembleMember | LanguageModel] = ()) -> None:
        self.members = tuple(one if isinstance(one, EnsembleMember) else EnsembleMember(one) for one in members)
        # Names select models in plans and transcripts, so they must differ.
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
        """The names of the models; they contain the settings."""
        return tuple(member.model.name for member in self.members)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights in the order of the names."""
        return tuple(member.weight for member in self.members)

    def record_to(self, path: Path) -> "Ensemble":
        """Return the models with recorded exchanges."""
        voices = [TranscriptModel(name=member.model.name, weight=member.weight) for member in self.members]
        tape = TranscriptFile(path, voices)
        return Ensemble(
            [EnsembleMember(TranscriptWriter(member.model, tape), member.weight) for member in self.members]
        )

    @classmethod
    def replay_from(cls, path: Path) -> "Ensemble":
        """Return a transcript's models, which repeat their recorded answers."""
        recording = Transcript(path)
        return cls([EnsembleMember(Replayer(recording, voice.name), voice.weight) for voice in recording.voices])
