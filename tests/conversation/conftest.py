"""What other modules left alive must not count where a test measures how reading grows."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _own_objects_only():
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
