from .making import publish
from .planner import load_statistics
from .serving import serve
from .verifying import Verified, verify

__all__ = ["Verified", "load_statistics", "publish", "serve", "verify"]
