from .making import Published, publish
from .verifying import Verified, verify

__all__ = ["Published", "Verified", "publish", "verify"]
