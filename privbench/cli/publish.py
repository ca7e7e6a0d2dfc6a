"""The commands ``publish`` and ``verify``: make a bundle for others, and check one."""

from typing import Any

import click

from privbench import publish as publishing
from privbench.cli.console import echo
from privbench.cli.options import CommandState, gathered, lock_option, sampling_options


def _about(**said: Any) -> dict[str, Any]:
    from privbench.publish.making import About

    return {"about": About(**{name: value for name, value in said.items() if value is not None})}


@click.command()
@click.argument("model", metavar="MODEL")
@click.option("-o", "--output", required=True, metavar="DIR", help="The bundle's folder.")
@gathered(
    _about,
    click.option("--title", metavar="TEXT", help="Its name."),
    click.option("--publisher", metavar="TEXT", help="Who answers for it."),
    click.option("--licence", metavar="TEXT", help="Under which licence it may be used."),
    click.option("--date", "published", metavar="DATE", type=click.DateTime(["%Y-%m-%d"]),
                 callback=lambda context, option, value: value and value.date(),
                 help="Day of publication, YYYY-MM-DD; today otherwise."),
)  # fmt: skip
@click.option("-w", "--workload", metavar="FILE", help="Queries whose text you declare public; "
              "literals are bound anew. Otherwise some are generated.")  # fmt: skip
@click.option("--queries", type=click.IntRange(0), default=100, metavar="N",
              help="How many to generate; 0 for none.")  # fmt: skip
@click.option("--database", metavar="DSN", help="An empty database that the clone is loaded into, "
              "to be read from there; an embedded server otherwise.")  # fmt: skip
@sampling_options
@click.option("--statistics", is_flag=True, help="Add the planner's statistics of a clone of the "
              "source's size, for a database that may be empty (PostgreSQL 18).")  # fmt: skip
@click.option("--key", metavar="FILE", help="Private key of OpenSSH to sign the checksums with.")
@lock_option
@click.pass_obj
def publish(state: CommandState, /, model: str, output: str, **given: Any) -> None:
    """Make a bundle of MODEL that may leave the house.

    It starts on PostgreSQL, and holds the schema, rows as CSV and Parquet, a workload, a script and
    a compose file that start it, a readme, Croissant metadata, checksums, and a certificate with
    every event of the release. All of it is made from MODEL; no source is read. A model that is NOT
    PRIVATE is refused.

    \b
    Example:
      privbench publish prod.privbench -o bundle/ --title "Shop benchmark" --publisher "Shop Ltd"
    """
    echo(publishing.publish(model, output, reporter=state.reporter, **given))


@click.command()
@click.argument("bundle", metavar="BUNDLE")
@click.option("--key", metavar="FILE", help="Public key of OpenSSH that has to have signed it.")
def verify(bundle: str, key: str | None) -> None:
    """Check a BUNDLE before it is started.

    Says what remains to be trusted. Nothing of it is run. Exit code 1 names the first file that is
    damaged, unknown, or not what privbench writes.

    \b
    Example:
      privbench verify bundle/ --key publisher.pub
    """
    echo(publishing.verify(bundle, key=key).render())
