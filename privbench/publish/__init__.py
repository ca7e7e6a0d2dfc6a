"""Make a bundle that may be published from a model alone, and check bundles before use.

Its concepts are `Bundle` (the list of a bundle's tables and files), `Certificate` (the guarantee
and all events), `PublishedStatistics` (the planner's statistics of the clone), `About` (what the
publisher states) and `Verified` (a bundle that was checked).

Names are imported when they are first used, from the modules that `__init__.pyi` lists. A
ModelError says which part of a model or a bundle is damaged, foreign, or may not be published.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
