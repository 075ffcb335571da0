"""Changes of manner that leave what is said alone: length, headers, markdown, hedges, manners, typos. Pure.

Code blocks are never touched, and no sentence that holds a digit or a link is left out, so that no fact
moves.
"""

import re
from collections.abc import Callable
from typing import Final

# A full stop inside a number or an address ends nothing.
_BETWEEN_SENTENCES: Final = re.compile(r"(?<=[.!?])(?=\s)|(?=\n)")
_FENCED: Final = re.compile(r"(```.*?(?:```|\Z))", re.DOTALL)
_FIXED: Final = re.compile(r"\d|https?:|@|`")

PADDING: Final = (
    "I hope that this answers what you wanted to know.",
    "This is said with your question in mind, and it is meant to be read as a whole.",
    "There is nothing to add to it beyond what stands above.",
)
_FILLER: Final = re.compile(
    r"\s*(?:i hope (?:that )?(?:this|it)\b.*|(?:please )?(?:let me know|feel free)\b.*"
    r"|(?:please )?do(?: not|n't) hesitate\b.*"
    r"|(?:great|good) question.*|thank you for (?:your|reaching)\b.*"
    r"|certainly|of course|sure(?: thing)?|absolutely"
    r"|as (?:i )?(?:said|mentioned)(?: (?:above|before))?"
    r"|this is said with\b.*|there is nothing to add\b.*)[.!?]*\s*",
    re.IGNORECASE,
)
_HEADER_LINE: Final = re.compile(
    r"\A(?:#{1,6} .*|\*\*[^*\n]{1,80}\*\*|\S{0,3}\s?status: .*)\n+", re.IGNORECASE
)
_HEDGE: Final = re.compile(
    r"\b(?:i (?:think|believe|suppose) (?:that )?|it (?:seems|appears) (?:that )?"
    r"|perhaps |probably |possibly )",
    re.IGNORECASE,
)
_HEDGING: Final = "I believe the following is right, though I may be mistaken. "
_POLITE: Final = re.compile(
    r"\s*(?:thank you(?: very much| so much)?(?: for [^.!?\n]{1,60})?|thanks[^.!?\n]{0,30}"
    r"|(?:kind|best) regards|you(?: are|'re) (?:very )?welcome|have a (?:nice|great|good) day"
    r"|(?:dear|hello|hi)[^.!?\n]{0,20}(?=[,!]))[.!,]*\s*",
    re.IGNORECASE,
)
_CONTRACTIONS: Final = {
    "don't": "do not", "doesn't": "does not", "didn't": "did not", "isn't": "is not", "aren't": "are not",
    "wasn't": "was not", "can't": "cannot", "couldn't": "could not", "won't": "will not",
    "wouldn't": "would not", "haven't": "have not", "hasn't": "has not", "i'm": "I am",
    "i've": "I have", "i'll": "I will",
    "you're": "you are", "you'll": "you will", "we're": "we are", "we'll": "we will", "it's": "it is",
    "that's": "that is", "there's": "there is",
}  # fmt: skip
_EXPANDED: Final = {long.lower(): short for short, long in _CONTRACTIONS.items()}
_MISSPELT: Final = {
    "teh": "the", "recieve": "receive", "recieved": "received", "adress": "address", "wich": "which",
    "seperate": "separate", "definately": "definitely", "occured": "occurred", "untill": "until",
    "becuase": "because", "thier": "their", "beleive": "believe", "tommorow": "tomorrow",
}  # fmt: skip
_WORD: Final = re.compile(r"\b[a-z]{5,}\b")
_TYPO_EVERY: Final = 6


def outside_code(change: Callable[[str], str]) -> Callable[[str], str]:
    """`change` applied to what stands in no code block."""

    def changed(text: str) -> str:
        pieces = _FENCED.split(text)
        return "".join(piece if piece.startswith("```") else change(piece) for piece in pieces)

    return changed


def padded(text: str) -> str:
    return f"{text.rstrip()} {' '.join(PADDING)}"


def trimmed(text: str) -> str:
    """Without sentences that say nothing, and without a sentence said before."""
    kept, seen = [], set()
    for sentence in _BETWEEN_SENTENCES.split(text):
        plain = " ".join(sentence.casefold().split())
        filler = _FILLER.fullmatch(sentence) and not _FIXED.search(sentence)
        if filler or (len(plain) > 20 and plain in seen):
            continue
        seen.add(plain)
        kept.append(sentence)
    return "".join(kept).strip()


def with_header(text: str) -> str:
    return f"**Status: answered**\n\n{text}"


def without_header(text: str) -> str:
    return _HEADER_LINE.sub("", text, count=1)


def with_markdown(text: str) -> str:
    """Each sentence as an item of a list."""
    sentences = [one.strip() for one in _BETWEEN_SENTENCES.split(text) if one.strip()]
    return "\n".join(f"- {one}" for one in sentences)


def without_markdown(text: str) -> str:
    text = re.sub(r"^(?:#{1,6}|[-*•]|>) +", "", text, flags=re.MULTILINE)
    return re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)


def hedged(text: str) -> str:
    return _HEDGING + text


def unhedged(text: str) -> str:
    sentences = _BETWEEN_SENTENCES.split(text.replace(_HEDGING, ""))
    return "".join(_capitalised(_HEDGE.sub("", one), one) for one in sentences)


def polite(text: str) -> str:
    return f"Thank you very much for your message. {text.rstrip()} Have a good day."


def unpolite(text: str) -> str:
    kept = [one for one in _BETWEEN_SENTENCES.split(text) if not _POLITE.fullmatch(one)]
    return "".join(kept).strip()


def formal(text: str) -> str:
    """Contractions written out."""
    return _replaced(text, _CONTRACTIONS)


def casual(text: str) -> str:
    return _replaced(text, _EXPANDED)


def with_typos(text: str) -> str:
    """Two letters exchanged in every sixth plain word, the same each time."""
    count = 0

    def typo(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        word = match.group()
        return word if count % _TYPO_EVERY != 1 else word[:2] + word[3] + word[2] + word[4:]

    return "".join(
        piece if _FIXED.search(piece) else _WORD.sub(typo, piece) for piece in re.split(r"(\s+)", text)
    )


def without_typos(text: str) -> str:
    return _replaced(text, _MISSPELT)


def _replaced(text: str, table: dict[str, str]) -> str:
    words = (re.escape(word).replace("'", "['’]") for word in sorted(table, key=len, reverse=True))
    pattern = rf"\b(?:{'|'.join(words)})\b"

    def other(match: re.Match[str]) -> str:
        said = match.group()
        new = table[said.lower().replace("’", "'")]
        return new[:1].upper() + new[1:] if said[:1].isupper() else new

    return re.sub(pattern, other, text, flags=re.IGNORECASE)


def _capitalised(new: str, old: str) -> str:
    if not old.lstrip()[:1].isupper():
        return new
    bare = new.lstrip()
    return new[: len(new) - len(bare)] + bare[:1].upper() + bare[1:]
