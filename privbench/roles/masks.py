"""Masks of PostgreSQL Anonymizer: what ``SECURITY LABEL FOR anon`` says of columns.

Whoever labelled a column said that its values are confidential, and by the function often what it
holds: ``MASKED WITH FUNCTION anon.fake_email()``. That is a hint for roles and for the kind of the
column, no more: nothing is masked here, since no value is copied in the first place.
"""

from __future__ import annotations

import re

from privbench.config import ColumnConfig
from privbench.schema import Table

_LABEL = re.compile(r"MASKED\s+WITH\s+(?:VALUE\b|FUNCTION\s+(?:\w+\.)?(\w+)\s*\()", re.IGNORECASE)
_MAKERS = re.compile(r"(?:fake|dummy|pseudo|random|partial)_")
#: Semantic types of what the functions of the extension make, by the rest of their names.
PROVIDERS = {
    **{
        name: name
        for name in (
            "address city company country country_code credit_card_number currency_code domain_name"
            " email first_name free_email iban ipv4 ipv6 job last_name mac_address name"
            " phone_number postcode safe_email street_name"
        ).split()
    },
    "cell_number": "phone_number",
    "city_name": "city",
    "company_name": "company",
    "country_name": "country",
    "phone": "phone_number",
    "username": "user_name",
    "zip": "zipcode",
    "zip_code": "zipcode",
}


def masks(table: Table) -> dict[str, str]:
    """The kind of value that each masked column's function makes; empty for a constant.

    >>> from privbench.schema import TableName
    >>> labels = (("mail", "MASKED WITH FUNCTION anon.fake_email()"), ("a", "NOT MASKED"))
    >>> masks(Table(TableName("public", "t"), (), labels=(*labels, ("b", "MASKED WITH VALUE 1"))))
    {'mail': 'email', 'b': ''}
    """
    found = {column: _LABEL.match(label.strip()) for column, label in table.labels}
    return {
        column: _MAKERS.sub("", (match[1] or "").lower(), count=1)
        for column, match in found.items()
        if match
    }


def column_hint(made: str, *, text: bool, nullable: bool) -> ColumnConfig | None:
    """The config of a column by what its mask makes; None where its type's kind does as well."""
    if not made and nullable:
        return ColumnConfig(kind="skip")
    return ColumnConfig(kind="text", faker=PROVIDERS.get(made)) if text else None
