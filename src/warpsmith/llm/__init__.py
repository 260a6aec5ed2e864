"""Language models, ensembles, budgets and transcripts."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.llm.concurrency import Outcome, ask_all, ask_many
    from warpsmith.llm.ensemble import Ensemble, EnsembleMember
    from warpsmith.llm.errors import (
        BudgetSpent,
        EmptyText,
        Malformed,
        MissingKey,
        MissingLibrary,
        ModelError,
        RateLimited,
        Rejected,
        ReplayMismatch,
        RequestFailed,
        ScriptEnded,
        ServerFailed,
        TimedOut,
        UnknownPrice,
        Unreachable,
    )
    from warpsmith.llm.model import FinishReason, LanguageModel, ModelAnswer, Prompt
    from warpsmith.llm.opening import open_ensemble, open_model
    from warpsmith.llm.patience import Patience, PatientModel
    from warpsmith.llm.providers import PROVIDERS, Provider, key_variables
    from warpsmith.llm.replay import Replayer, Transcript, TranscriptWriter
    from warpsmith.llm.scripted import ScriptedModel
    from warpsmith.llm.settings import Price, Settings
    from warpsmith.llm.spec import ModelSpec, parse_model, parse_models
    from warpsmith.llm.spend import MeteredModel, Spend
    from warpsmith.llm.tape import Exchange, RecordedFailure, TranscriptFile, TranscriptModel

__getattr__ = lazy_members(__name__)
