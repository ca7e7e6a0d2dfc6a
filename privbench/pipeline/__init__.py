"""Every command as a Python function; the command line only calls these.

Its concepts are `FitPlan` (who owns what, and the readers of columns), `Draft` (a fit under way),
`Model` (the file), `Promise` (its guarantee) and `CloneTable` (rows to load).

Names are imported when they are first used, since a clone needs no reports; `__init__.pyi` lists
the module of each name.

All raise errors of `privbench.errors`: a ConfigError or SchemaError where config, roles and schema
do not fit, a ModelError for a damaged or hostile model, a DatabaseError where a server refuses or
is unreachable, a PrivacyRefusal where the privacy contract forbids something (a LedgerError for a
damaged ledger), a UsageError for arguments that make no sense. Functions name only what is
particular to them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
