"""Whether a judge grades a conversation in production (`spec/settings.md`): a pure function of ids and rate.

The decision repeats, and a lower rate selects a subset of a higher one, because the rate is compared with a
number that only key, judge and conversation determine.
"""

import hashlib
import hmac
from typing import Final

from sandbox_judge.canonical import without_surrogates

SAMPLED_ENVIRONMENT: Final = "production"


def is_sampled(*, environment: str | None) -> bool:
    """Whether sampling applies at all: development, staging and an absent environment are graded in full."""
    return environment == SAMPLED_ENVIRONMENT


def selected(*, judge_id: str, conversation_id: str, rate: float, sampling_key: str) -> bool:
    """Whether this judge grades this conversation at `rate` (0 to 1).

    True iff the first 8 bytes, big-endian, of HMAC-SHA-256(key, judge id + "\\n" + conversation id), divided
    by 2^64, are below the rate. Compared as integers' exact ratio: a float of the digest could round up to 1
    and leave a conversation out at rate 1.
    """
    name = without_surrogates(f"{judge_id}\n{conversation_id}").encode()
    digest = hmac.digest(without_surrogates(sampling_key).encode(), name, hashlib.sha256)
    # `rate * 2**64` is exact (a power of two), and Python compares an int with a float exactly.
    return int.from_bytes(digest[:8], "big") < rate * 2.0**64
