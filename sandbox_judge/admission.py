"""Which judge files a run asks about a conversation, before any gate (design, sections 4 and 5). Pure.

Every file gets one candidate: it is asked, or it has its outcome already.
"""

from typing import Final

import msgspec

from sandbox_judge.ids import judge_id_of
from sandbox_judge.judgement import Calibration, Subject, subject_of
from sandbox_judge.ledger import LedgerOutcome
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Judge, Llm, ModelRequest
from sandbox_judge.recipe.loaded import LoadedJudge, LoadedRecipe
from sandbox_judge.sampling import is_sampled, selected
from sandbox_judge.settings import LiveSettings

_FAULTS_TOLD: Final = 3


class ModelOverride(msgspec.Struct, frozen=True, kw_only=True):
    """`--model`: another model than the judge's own, for a dry run. `provider` None keeps the judge's."""

    model: str
    provider: str | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One judge file in one run. `outcome` None: it is asked. `null`: what to emit for an invalid definition;
    `subject` None: nothing may be emitted (no name, or one that is taken)."""

    loaded: LoadedJudge
    subject: Subject | None = None
    judge: Judge | None = None
    outcome: LedgerOutcome | None = None
    null: Invalid | None = None

    @property
    def path(self) -> str:
        return self.loaded.file.path


def candidates(
    recipe: LoadedRecipe,
    settings: LiveSettings,
    *,
    conversation_id: str,
    environment: str | None,
    dry_run: bool = False,
    model: ModelOverride | None = None,
    calibration: dict[str, Calibration] | None = None,
) -> tuple[Candidate, ...]:
    """The candidates in the order of their paths. A dry run ignores sampling and `enabled`."""
    states = calibration or {}
    found = []
    for loaded in recipe.judges:
        name = loaded.file.name
        if loaded.file.not_online:
            found.append(Candidate(loaded=loaded, outcome="not_online"))
        elif loaded.duplicate or name is None or not loaded.file.definition_hash:
            found.append(Candidate(loaded=loaded, outcome="definition_invalid"))
        else:
            live = settings.judge(recipe.recipe_id, name)
            rate = live.sample_rate if live.sample_rate is not None else 1.0
            sampled = is_sampled(environment=environment) and not dry_run
            subject = _subject(loaded, recipe.recipe_id, live.id, rate if sampled else 1.0, states.get(name))
            outcome: LedgerOutcome | None = None
            if live.enabled is False and not dry_run:
                outcome = "disabled"
            elif sampled and not selected(
                judge_id=subject.judge_id,
                conversation_id=conversation_id,
                rate=rate,
                sampling_key=settings.sampling_key,
            ):
                outcome = "not_sampled"
            found.append(_candidate(loaded, subject, outcome, model))
    return tuple(found)


def _candidate(
    loaded: LoadedJudge, subject: Subject, outcome: LedgerOutcome | None, model: ModelOverride | None
) -> Candidate:
    judge = loaded.file.judge
    if outcome is not None:
        return Candidate(loaded=loaded, subject=subject, outcome=outcome)
    if judge is None:
        return Candidate(
            loaded=loaded, subject=subject, outcome="definition_invalid", null=_definition_invalid(loaded)
        )
    if model is not None:
        judge = with_model(judge, model)
        subject = msgspec.structs.replace(subject, provider=judge.llm.provider, model=judge.llm.model)
    return Candidate(loaded=loaded, subject=subject, judge=judge)


def _subject(
    loaded: LoadedJudge,
    recipe_id: str,
    configured_id: str | None,
    rate: float,
    calibration: Calibration | None,
) -> Subject:
    if loaded.file.judge is not None:
        return subject_of(
            loaded.file.judge,
            recipe_id=recipe_id,
            configured_id=configured_id,
            rate=rate,
            calibration=calibration,
        )
    name = loaded.file.name or ""
    return Subject(
        name=name,
        judge_id=judge_id_of(recipe_id, name, configured=configured_id),
        definition_hash=loaded.file.definition_hash,
        rate=rate,
    )


def _definition_invalid(loaded: LoadedJudge) -> Invalid:
    told = [f"{fault.code}: {fault.message}" for fault in loaded.faults[:_FAULTS_TOLD]]
    more = len(loaded.faults) - len(told)
    return Invalid(
        type="definition_invalid",
        message=f"{loaded.file.path}: {'; '.join(told)}{f'; and {more} more' if more > 0 else ''}",
    )


def with_model(judge: Judge, override: ModelOverride) -> Judge:
    """`judge` asked of another model. Its own endpoint and what it asked of its own model do not carry over
    where the provider changes; limits of time do."""
    moved = override.provider is not None and override.provider != judge.llm.provider
    llm = Llm(
        model=override.model,
        provider=override.provider or judge.llm.provider,
        request=ModelRequest(max_tokens=judge.llm.request.max_tokens) if moved else judge.llm.request,
        transport=judge.llm.transport,
        local=None if override.provider is not None else judge.llm.local,
    )
    return msgspec.structs.replace(judge, llm=llm)
