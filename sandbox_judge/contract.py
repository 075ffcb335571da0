"""The version of the contract between judge and model: prompt, view and reply reader (design, section 7).

Judgements of two contract versions are never compared. A test pins a digest over all three
(`contract_digest.py`). Until the first tagged release the version stays "1" and the digest moves with a line
in CHANGELOG; from then on both move together. A leaf.
"""

from typing import Final

CONTRACT_VERSION: Final = "1"
