"""Where things live: as `platformdirs` has it, where the environment says, and somewhere without a home."""

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from sandbox_judge.errors import SettingsError
from sandbox_judge.paths import APP, config_dir, data_dir, state_dir
from sandbox_judge.trust import make_private_dir

PLACES = {"state": state_dir, "config": config_dir, "data": data_dir}
ORACLE = {
    "state": platformdirs.user_state_dir,
    "config": platformdirs.user_config_dir,
    "data": platformdirs.user_data_dir,
}


@pytest.mark.parametrize("purpose", PLACES)
@pytest.mark.parametrize("xdg", ["", "/x/y", "/x/y/", "relative", " "])
def test_the_places_are_those_of_platformdirs(
    purpose: str, xdg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv(f"XDG_{purpose.upper()}_HOME", xdg)
    monkeypatch.delenv(f"SANDBOX_JUDGE_{purpose.upper()}_DIR", raising=False)
    found = PLACES[purpose](os.environ)
    assert found.warning == ""
    if xdg != "relative":  # which the specification says to ignore
        assert found.path == Path(ORACLE[purpose](APP))
    assert found.path.is_absolute()


@pytest.mark.parametrize("purpose", PLACES)
def test_a_place_of_ones_own(purpose: str, tmp_path: Path) -> None:
    name = f"SANDBOX_JUDGE_{purpose.upper()}_DIR"
    environ = {name: str(tmp_path), "HOME": "/h", f"XDG_{purpose.upper()}_HOME": "/x"}
    assert PLACES[purpose](environ).path == tmp_path
    assert PLACES[purpose]({**environ, name: ""}).path == Path("/x", APP)
    for wrong in ("relative", "~/x", "./x", "/a\0b"):
        with pytest.raises(SettingsError) as error:
            PLACES[purpose]({**environ, name: wrong})
        assert error.value.where == name


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_there_is_a_place_that_says_so(home: str | None) -> None:
    environ = {} if home is None else {"HOME": home}
    places = {purpose: find(environ) for purpose, find in PLACES.items()}
    assert len({place.path for place in places.values()}) == 3
    for purpose, place in places.items():
        assert str(os.geteuid()) in str(place.path)
        assert f"SANDBOX_JUDGE_{purpose.upper()}_DIR" in place.warning


def test_the_makeshift_place_can_be_private() -> None:
    place = state_dir({}).path
    existed = place.parent.exists()
    make_private_dir(place)
    if not existed:
        place.rmdir()
        place.parent.rmdir()


def test_platformdirs_is_not_imported() -> None:
    code = "import sys, sandbox_judge.paths; sys.exit('platformdirs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_elsewhere_than_on_linux_platformdirs_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert str(state_dir({"HOME": "/elsewhere"}).path) == platformdirs.user_state_dir("sandbox-judge", False)
