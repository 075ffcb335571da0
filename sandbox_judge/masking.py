"""Secrets out of a text (design, section 10): key-like values, and the values of the credentials in use.

Every pattern is anchored to the start of a run and runs over bounded or disjoint classes, so that the time
is linear in the text whatever the text is. A leaf.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

MASK: Final = "[masked]"

# A credential this short may be a word of the message too: masked only where it stands alone.
_SHORT: Final = 8

# Providers echo keys half starred (`sk-abcd****wxyz`), hence the asterisk in the classes.
_PREFIXED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_*.-]{6,}"  # OpenAI, Anthropic, OpenRouter, Langfuse, Stripe
    r"|AIza[A-Za-z0-9_*-]{10,}"  # Google
    r"|ya29\.[A-Za-z0-9_*-]{10,}"
    r"|(?:ghp|gho|ghu|ghs|ghr|glpat|hf|gsk|xai|pplx|nvapi|r8|npm|pypi|dop_v1|lsv2|tvly)[-_][A-Za-z0-9_*-]{8,}"
    r"|github_pat_[A-Za-z0-9_*]{8,}"
    r"|xox[a-z](?:\.[a-z]+)?-[A-Za-z0-9*-]{6,}"  # Slack
    r"|xapp-[A-Za-z0-9*-]{6,}"
    r"|(?:AKIA|ASIA|AROA|ABSK)[A-Za-z0-9*+/=]{12,}"  # AWS
    r")"
)
_NAMED_SECRET: Final = re.compile(r"(?i)key|token|secret|passw|credential|auth(?!or)")
_JWT: Final = re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?")
_HEADER: Final = re.compile(
    r"\b(bearer[ \t:]{1,5})[^\s\"',;<>]{4,}"
    # "Basic authentication" is prose; a Basic credential is base64 with more than lower-case letters.
    r"|\b(basic[ \t]{1,5})(?-i:(?=[a-z]{0,80}[A-Z0-9+/=]))[A-Za-z0-9+/=_-]{6,}",
    re.IGNORECASE,
)
_ASSIGNED: Final = re.compile(
    r"(?<![a-z])("
    r"(?:(?:x[-_])?api[-_ ]?key|access[-_ ]?key(?:[-_ ]?id)?|secret(?:[-_ ]?(?:access[-_ ]?)?key)?"
    r"|client[-_]secret|(?:access|auth|refresh|session|id)?[-_]?token|password|passwd|pwd|signature"
    r"|x-amz-[a-z-]{1,40}|authorization|(?:set-)?cookie)"
    r"(?:\s{1,3}provided)?[\"']?\s{0,3}[=:]\s{0,3}[\"']?)"
    r"(?:(?:bearer|basic|token)\s{1,3})?[^\s\"',;&<>{}\[\]()]{3,}",
    re.IGNORECASE,
)
_URL: Final = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{1,20}://)[^\s/@\"'<>]{1,512}@", re.IGNORECASE)
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}-----)?")


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with the given secret values and everything that looks like a key as `[masked]`."""
    for secret in _longest_first(secrets):
        text = _without(text, secret)
    text = _PEM.sub(MASK, text)
    text = _URL.sub(rf"\1{MASK}@", text)
    text = _JWT.sub(MASK, text)
    text = _PREFIXED.sub(MASK, text)
    text = _HEADER.sub(lambda m: f"{m[1] or m[2]}{MASK}", text)
    return _ASSIGNED.sub(lambda m: m[1] + MASK, text)


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are named as credentials are: what a message of any origin must not show,
    whatever the values look like."""
    return tuple(
        value for name, value in environ.items() if len(value) >= _SHORT and _NAMED_SECRET.search(name)
    )


def mask_values(text: str, secrets: Iterable[str]) -> str:
    """`text` with the given secret values as `[masked]`, and nothing else: for texts that are about other
    people's words. Values too short to be a secret are left; the result is never longer than `text`."""
    for secret in _longest_first(secrets):
        if len(secret) >= _SHORT:
            text = text.replace(secret, MASK)
    return text


def _longest_first(secrets: Iterable[str]) -> list[str]:
    """A secret that holds another must not be left in halves."""
    return sorted({secret for secret in secrets if secret.strip()}, key=len, reverse=True)


def _without(text: str, secret: str) -> str:
    if len(secret) >= _SHORT:
        return text.replace(secret, MASK)
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", lambda _: MASK, text)
