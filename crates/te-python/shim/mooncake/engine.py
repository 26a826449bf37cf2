"""``te_engine.compat`` under the name that programs written for Mooncake import."""

from te_engine.compat import *  # noqa: F403
from te_engine.compat import __all__ as __all__
