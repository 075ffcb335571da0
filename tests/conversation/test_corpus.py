"""The samples in `corpus/conversations`, each beside the view it must give, to the letter."""

from pathlib import Path

import pytest

from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.grading.view import build_view

CORPUS = Path(__file__).parent.parent / "corpus" / "conversations"
SAMPLES = sorted(path.name for path in CORPUS.glob("*.json*"))


def test_there_are_samples_and_each_has_its_view():
    assert SAMPLES and {name.split(".")[0] for name in SAMPLES} == {
        path.name.split(".")[0] for path in CORPUS.glob("*.view.txt")
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name):
    conversation = read_conversation((CORPUS / name).read_bytes())
    expected = (CORPUS / f"{name.split('.')[0]}.view.txt").read_text()
    assert build_view(conversation).text + "\n" == expected
    assert name.startswith(("chat", conversation.source_format.split("_")[0]))
