from .making import publish
from .serving import serve
from .verifying import Verified, verify

__all__ = ["Verified", "publish", "serve", "verify"]
