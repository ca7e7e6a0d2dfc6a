"""A bundle that may leave the house: made from a model alone, and checked before it is used.

Its concepts are `Bundle`, `Certificate`, `PublishedStatistics`, `About` (what the publisher states)
and `Verified`.

Names are imported when they are first used, from the modules that `__init__.pyi` lists. A
ModelError says which part of a model or a bundle is damaged, foreign, or may not be published.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
