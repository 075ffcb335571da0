"""What set-up installs: hashed, without a download address, and never a release that was compromised."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_hashed_and_no_address_is_named(lock):
    text = lock.read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[a-zA-Z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert entries
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==", entry), entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]


def test_compromised_releases_are_excluded():
    (wanted,) = re.findall(r'"litellm(>[^"]*)"', (ROOT / "pyproject.toml").read_text())
    for excluded in ("!=1.82.7", "!=1.82.8", "!=1.107.*"):
        assert excluded in wanted
    for lock in LOCKS:
        for version in re.findall(r"^litellm==([\d.]+)", lock.read_text(), flags=re.MULTILINE):
            assert version not in ("1.82.7", "1.82.8")
            assert not version.startswith("1.107.")
