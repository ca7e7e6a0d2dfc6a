"""``ledger``: what was spent on a database, and its cap."""

from __future__ import annotations

import json

import click

from privbench import pipeline
from privbench.cli.options import config_option
from privbench.config import Config


@click.group()
def ledger() -> None:
    """Show what was spent on a database over all releases, and cap it.

    \b
    Example:
      privbench ledger show "service=prod"
    """


@ledger.command()
@click.argument("source", default="")
@config_option
@click.option("--identity", metavar="NAME", help="Identity in the config, if it declares one.")
@click.option("--ledger", "path", metavar="DIR", help="Directory of the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(
    source: str, config_path: str | None, identity: str | None, path: str | None, as_json: bool
) -> None:
    """List the releases of a database and their sum; a config says which, and where.

    \b
    Example:
      privbench ledger show --identity shop-production
    """
    if config_path is not None:
        config = Config.load(config_path)
        identity = identity or config.database.identity
        path = path or config.ledger.path
    found = pipeline.ledger_show(source, identity, path)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else found.render())


@ledger.command()
@click.argument("source", default="")
@click.option("--identity", metavar="NAME", help="Identity in the config, if it declares one.")
@click.option("--ledger", "path", metavar="DIR", help="Directory of the ledger.")
@click.option("--epsilon", type=float, required=True, metavar="E", help="No release past this ε.")
@click.option("--delta", type=float, metavar="D", help="No release past this δ.")
def cap(
    source: str, identity: str | None, path: str | None, epsilon: float, delta: float | None
) -> None:
    """Refuse every release that would take the database past a total.

    \b
    Example:
      privbench ledger cap "service=prod" --epsilon 10
    """
    pipeline.ledger_cap(source, identity, path, epsilon, delta)
    click.echo(pipeline.ledger_show(source, identity, path).render())
