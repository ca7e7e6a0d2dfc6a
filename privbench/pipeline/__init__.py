"""Every command as a Python function; the command line only calls these.

Names are imported when they are first used: a clone needs no reports. `__init__.pyi` says whence.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
