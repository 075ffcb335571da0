import pytest
from hosts.host_stage import Stage

from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer


@pytest.fixture(scope="session")
def model():
    with ModelServer(verdict("pass")) as server:
        yield server


@pytest.fixture
def stage(tmp_path, model):
    return Stage(tmp_path, model.base_url)
