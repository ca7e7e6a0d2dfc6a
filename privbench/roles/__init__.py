"""Who owns what: roles proposed from the catalog alone, and settled with the config.

`propose` guesses from names, types and foreign keys which table's rows are privacy units and which
keys own the rest; it never reads rows. `resolve` settles the OWN keys and refuses what the privacy
contract forbids.
"""

from privbench.roles.classes import Kind
from privbench.roles.facts import column_hint, masks
from privbench.roles.propose import Proposal, propose, render
from privbench.roles.resolve import resolve, sections

__all__ = ["Kind", "Proposal", "column_hint", "masks", "propose", "render", "resolve", "sections"]
