from .api import compare, connect, fit

__version__: str
__all__ = ["compare", "connect", "fit"]
