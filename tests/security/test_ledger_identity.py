"""Attacks by the ledger: one database that is taken for several, each with the whole cap.

Each test names the attack, its door, and what stops it.
"""

import uuid
from itertools import product

import market
import pytest
from psycopg import conninfo

from privbench import pipeline
from privbench.errors import BudgetExceeded, LedgerError, PrivacyRefusal
from privbench.postgres.connect import connect, identity
from privbench.privacy import Accountant, Cap, Fit, Ledger, UnitDefinition

DEFINITION = UnitDefinition("add-remove", (("public.users", ""),))


@pytest.fixture(scope="module")
def source(make_database):
    return market.create(make_database(), 20)


@pytest.fixture
def plain(source):
    """A role that may read the market, on a server where pg_control_system is nobody's."""
    name = f"plain_{uuid.uuid4().hex[:8]}"
    market.execute(
        source,
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
        f"CREATE ROLE {name} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
    )
    yield conninfo.make_conninfo(source, user=name)
    market.execute(
        source,
        "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC",
        f"DROP OWNED BY {name}; DROP ROLE {name}",
    )


def undeclared(ledger, **privacy):
    """The market's config without an identity."""
    return market.config(ledger, market.CONFIG.replace('identity = "market"', ""), **privacy)


def spend(path, name, epsilon=1.0, database=None, cap=None, apart=()):
    """Open a release in a ledger and leave it, as a fit that died does."""
    ledger = Ledger.open(path, name, database, apart)
    release = ledger.open_release(
        Fit("hash", DEFINITION), Accountant("pure", epsilon), cap=None if cap is None else Cap(cap)
    )
    release.leave()
    return release.id


def known(dsn, declared=None):
    with connect(dsn) as connection:
        return identity(connection, declared)


def test_fit_without_an_identity_is_refused_whatever_the_address(plain, source, tmp_path):
    """Attack: socket, symbolic link and names of one server, a whole cap each. Door: ledger.

    An address is no identity: the release is refused before anything is written.
    """
    parts = conninfo.conninfo_to_dict(plain)
    spelled = [parts]
    if str(parts["host"]).startswith("/"):
        (tmp_path / "sock").symlink_to(str(parts["host"]))
        spelled.append({**parts, "host": str(tmp_path / "sock")})
    config = undeclared(tmp_path / "ledger")
    for one in spelled:
        dsn = conninfo.make_conninfo("", **one)
        for refused in (
            lambda dsn=dsn: pipeline.fit(dsn, config, tmp_path / "m"),
            lambda dsn=dsn: pipeline.plan(config, dsn),
            lambda dsn=dsn: pipeline.ledger_show(dsn, None, config.ledger.path),
            lambda dsn=dsn: pipeline.ledger_cap(dsn, None, config.ledger.path, Cap(1.0)),
        ):
            with pytest.raises(PrivacyRefusal, match="Declare one under \\[database\\]"):
                refused()
    assert not (tmp_path / "ledger").exists()
    assert "none" in pipeline.inspect(plain).render().splitlines()[0]
    found = pipeline.plan(market.config(tmp_path / "ledger"), plain)
    assert "market (declared in the config)" in found.render()
    assert found.to_json()["identity"]["name"] == "market"


def test_identity_of_a_renamed_database_is_the_same(make_database, server, tmp_path):
    """Attack: ALTER DATABASE … RENAME between two releases. Door: ledger. Stopped by the OID."""
    old, new = f"old_{uuid.uuid4().hex[:8]}", f"new_{uuid.uuid4().hex[:8]}"
    dsn = make_database(name=old)
    before = known(dsn)
    spend(tmp_path, before.required(), database=before.own, cap=1.5)
    market.execute(server.dsn, f"ALTER DATABASE {old} RENAME TO {new}")
    try:
        after = known(conninfo.make_conninfo(dsn, dbname=new))
    finally:
        market.execute(server.dsn, f"ALTER DATABASE {new} RENAME TO {old}")
    assert after == before
    # No attack: another database does not pay for this one.
    other = known(make_database()).required()
    assert other != before.required()
    with pytest.raises(BudgetExceeded):
        spend(tmp_path, after.required(), database=after.own, cap=1.5)


FORMER = [
    "{system}/shop", "{system}/another name, before a rename", "localhost:5432/shop",
    "/var/run/postgresql:5432/old", "db.example:6432/shop", "[::1]:5432/a/b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("former", "declared"), [*product(FORMER, [None, "shop"]), ("{undeclared}", "shop")]
)
def test_spend_under_a_former_name_counts_under_the_new(make_database, tmp_path, former, declared):
    """Attack: an earlier version used another name, or a name is declared after the OID was used,
    and the old losses are forgotten. Door: ledger.

    Every ledger that may have been kept for this database counts.
    """
    dsn = make_database()
    now = known(dsn, declared)
    old = former.format(system=now.own.partition(":")[0], undeclared=known(dsn).required())
    spend(tmp_path, old, 1.0)
    Ledger.open(tmp_path, old).set_cap(Cap(1.5))
    with pytest.raises(BudgetExceeded):
        spend(tmp_path, now.required(), database=now.own)
    spend(tmp_path, now.required(), 0.5, database=now.own)
    shown = Ledger.open(tmp_path, now.required(), now.own).show()
    assert [item["epsilon"] for item in shown["definitions"]] == [1.5]
    assert [item["identity"] for item in shown["others"]] == [old]
    # The owner may set another cap; that of the old name is his no longer.
    Ledger.open(tmp_path, now.required(), now.own).set_cap(Cap(3))
    spend(tmp_path, now.required(), 1.5, database=now.own)
    with pytest.raises(BudgetExceeded):
        spend(tmp_path, now.required(), 0.1, database=now.own)


def test_spend_beside_a_damaged_ledger_is_refused(make_database, tmp_path):
    """Attack: spoil the name of an old ledger, so that it cannot be read. Door: ledger.

    What cannot be told apart is refused.
    """
    now = known(make_database())
    spend(tmp_path, f"{now.own.partition(':')[0]}/shop")
    (file,) = tmp_path.rglob("ledger.sqlite")
    file.write_bytes(file.read_bytes().replace(b"identity", b"Identity", 1))
    with pytest.raises(LedgerError, match="damaged"):
        spend(tmp_path, now.required(), database=now.own)


def test_spend_beside_other_folders_goes_on(make_database, tmp_path):
    """No attack: lost+found, notes and copies do not stop a release."""
    now = known(make_database())
    (tmp_path / "lost+found").mkdir(mode=0o000)
    (tmp_path / "notes.txt").write_text("x")
    spend(tmp_path, now.required(), database=now.own)
    assert len(Ledger.open(tmp_path, now.required(), now.own).show()["releases"]) == 1


def test_resume_of_an_earlier_name_goes_on_in_its_file(tmp_path):
    """Attack: resume a release of an old name, so that it is counted nowhere. Door: ledger.

    It goes on in the file where it was opened.
    """
    old = spend(tmp_path, "7/shop")
    ledger = Ledger.open(tmp_path, "7:16384", "7:16384")
    release = ledger.open_release(Fit("hash", DEFINITION), Accountant("pure", 1.0), resume=old)
    assert release.close().epsilon == 0
    (shown,) = Ledger.open(tmp_path, "7/shop").show()["releases"]
    assert shown["state"] == "closed"
    assert ledger.show()["definitions"][0]["epsilon"] == 0


def test_ledger_abandon_frees_what_no_event_took(tmp_path):
    """Attack: a fit whose disk was full holds its budget for ever. Door: ledger.

    `ledger abandon` closes it at the loss of its events, drawn or not, and no lower.
    """
    dead = spend(tmp_path, "shop", cap=1.0)
    with pytest.raises(BudgetExceeded):
        spend(tmp_path, "shop", 0.5, cap=1.0)
    assert pipeline.ledger_abandon(dead, str(tmp_path)).epsilon == 0
    with pytest.raises(LedgerError, match="closed"):
        pipeline.ledger_abandon(dead, str(tmp_path))
    spend(tmp_path, "shop", 0.5, cap=1.0)


@pytest.mark.parametrize("wrong", [str(uuid.UUID(int=1)), "", "../../etc/passwd", "%00", "é"])
def test_ledger_abandon_of_no_release_is_refused(tmp_path, wrong):
    """Attack: a path in the place of an id. Door: ledger. Ids are looked up, never opened."""
    spend(tmp_path, "shop")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LedgerError, match="no ledger in"):
        pipeline.ledger_abandon(wrong, str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
