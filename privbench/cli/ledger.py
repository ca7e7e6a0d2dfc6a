"""The command ``ledger``, which shows the privacy budget spent on a database and sets its cap."""

import click

from privbench import pipeline
from privbench.cli.console import echo
from privbench.cli.options import config_option, ledger_option, monthly_option, read_config
from privbench.display import json_lines


@click.group()
def ledger() -> None:
    """Show what was spent on databases, and cap it.

    \b
    Example:
      privbench ledger show "service=prod"
    """


@ledger.command()
@click.argument("source", default="")
@config_option
@click.option("--identity", metavar="NAME", help="Identity in the config, if it declares one.")
@ledger_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(
    source: str, config_path: str | None, identity: str | None, ledger: str | None, as_json: bool
) -> None:
    """List ledgers, or the releases of a database and their sum.

    SOURCE, --identity or a config says of which database. Without them the ledgers of the directory
    are listed: database, what is spent, cap, and where they are kept.

    \b
    Example:
      privbench ledger show --identity shop-production
    """
    config = read_config(config_path, ledger=ledger)
    identity = identity or config.database.identity
    report = pipeline.ledger_show(source, identity, config.ledger.path)
    echo(json_lines(report.to_json()) if as_json else report.render())


@ledger.command()
@click.argument("source", default="")
@click.option("--identity", metavar="NAME", help="Identity in the config, if it declares one.")
@ledger_option
@click.option("--epsilon", type=float, required=True, metavar="E", help="No release past this ε.")
@click.option("--delta", type=float, metavar="D", help="No release past this δ.")
@monthly_option
def cap(
    source: str,
    identity: str | None,
    ledger: str | None,
    epsilon: float,
    delta: float | None,
    max_epsilon_per_month: float | None,
) -> None:
    """Refuse every release that would take a database past a total.

    It takes the place of an earlier cap: limits that are left out are lifted, and that is said.

    \b
    Example:
      privbench ledger cap "service=prod" --epsilon 10 --max-epsilon-per-month 3.2
    """
    from privbench.privacy import Cap

    new = Cap(epsilon, delta, max_epsilon_per_month)
    for limit in pipeline.ledger_cap(source, identity, ledger, new):
        echo(f"No longer capped: {limit}.")
    echo(pipeline.ledger_show(source, identity, ledger).render())


@ledger.command()
@click.argument("release", metavar="ID")
@config_option
@ledger_option
def abandon(release: str, config_path: str | None, ledger: str | None) -> None:
    """Close a release that died.

    What it promised so far stays spent, the rest is free again. A fit that was killed, or whose
    disk was full, holds all that it asked for until it is resumed or given up. One that is running
    is refused.

    \b
    Example:
      privbench ledger abandon 3f0c9f6e-6d0c-4a53-9f1e-0c1f2a7a9b10 --ledger state/
    """
    spent = pipeline.ledger_abandon(release, read_config(config_path, ledger=ledger).ledger.path)
    echo(f"Release {release} is closed: ε {spent.epsilon:.6g}, δ {spent.delta:.6g} stay spent.")
