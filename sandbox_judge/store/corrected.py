"""A trend's pass rates corrected for the judge's own errors, as its calibration record has them. Pure.

It does where definition, contract version, endpoint and answering model of a test result are those of the
verdicts; others are counted and left out, never corrected by somebody else's error rates.
"""

from typing import Any

import msgspec

from sandbox_judge.calibration.correct import Corrected, corrected_pass_rate
from sandbox_judge.calibration.record import Record, Result
from sandbox_judge.store.tally import Comparable, Model
from sandbox_judge.store.trend import Point


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """The corrected rate of one point, by the result of look `look`. `left_out` are verdicts (pass or fail)
    of models that the result does not speak of."""

    corrected: Corrected
    left_out: int
    look: int

    def shown(self) -> dict[str, Any]:
        interval = self.corrected.interval
        return {
            "rate": self.corrected.rate,
            "interval": None if interval is None else list(interval),
            "n": self.corrected.n,
            "undefined": self.corrected.why,
            "left_out": self.left_out,
            "look": self.look,
        }


def correction(point: Point, of: Comparable, record: Record, *, z: float) -> Correction | None:
    """The point's correction; None where no test result fits it. Of several models that were measured, the
    one with the most verdicts counts."""
    fitting = {model: result for model in point.by_model if (result := _result(record, of, model))}
    if not fitting:
        return None
    model = max(
        fitting, key=lambda one: (point.by_model[one].decided, one.endpoint, one.response_model or "")
    )
    result, tally = fitting[model], point.by_model[model]
    return Correction(
        corrected=corrected_pass_rate(tally.passes, tally.decided, result.confusion, z=z),
        left_out=point.tally.decided - tally.decided,
        look=result.look,
    )


def _result(record: Record, of: Comparable, model: Model) -> Result | None:
    """The latest test result of this very judge and model."""
    for one in reversed(record.results):
        if (
            one.split == "test"
            and (one.definition_hash, one.contract_version) == (of.definition_hash, of.contract_version)
            and (one.llm.endpoint, one.llm.response_model) == (model.endpoint, model.response_model)
        ):
            return one
    return None
