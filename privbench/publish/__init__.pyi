from .making import publish
from .verifying import Verified, verify

__all__ = ["Verified", "publish", "verify"]
