"""The roles of tables: proposed from the catalog alone, and resolved with the config.

A role says whether a table is public, and which foreign key owns its rows. `propose` guesses from
names, types and foreign keys which tables' rows are privacy units and by which keys they own the
rows of other tables; it never reads rows. `resolve` determines the OWN keys and refuses roles that
the privacy contract forbids.
"""

from privbench.roles.classes import TableKind
from privbench.roles.natural import with_natural_keys
from privbench.roles.propose import Proposal, propose, render, render_sizes
from privbench.roles.references import referenced
from privbench.roles.resolve import resolve, sections

__all__ = [
    "Proposal",
    "TableKind",
    "propose",
    "referenced",
    "render",
    "render_sizes",
    "resolve",
    "sections",
    "with_natural_keys",
]
