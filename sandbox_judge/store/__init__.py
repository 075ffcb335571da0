"""The store of judgements (design, sections 2 and 13; `docs/store.md`): an optional install.

Whatever of this package is imported first says what is missing, in place of a traceback.
"""

from importlib.util import find_spec

from sandbox_judge.errors import MissingExtra

_MISSING = [name for name in ("sqlalchemy", "alembic", "plotly") if find_spec(name) is None]
if _MISSING:
    raise MissingExtra(
        f"the store needs {' and '.join(_MISSING)}, which is not installed",
        remedy="Install it with: pip install 'sandbox-judge[store]'",
    )
