"""What all tests share: where the recordings are, and the two event loops."""

from pathlib import Path

import hypothesis
import pytest

# How long an example takes says nothing here: speed is measured by benchmarks, side by side.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

SHARED = Path(__file__).parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The recordings and cases beside the checkout; tests that need them skip where they are absent."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the checkout")
    return SHARED


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
