"""What holds of the tool's commands that start servers or count elsewhere holds of an audit."""

import pytest
import test_postgres_embedded as embedded
import test_privacy_workers as workers
from test_postgres_embedded import directory
from test_privacy_workers import unreached

__all__ = ["directory", "unreached"]


def test_an_audit_refuses_an_open_address_first(unreached, tmp_path):
    words = "audit {dsn} --epsilon 1 -c {out}/c.toml -o {out}/audit"
    workers.test_commands_refuse_an_open_address_first(tmp_path, words)


@pytest.mark.slow
def test_a_killed_audit_leaves_no_server_and_no_rows(make_database, directory, tmp_path):
    words = ["audit", "{dsn}", "-o", "out", "-c", "c.toml"]
    embedded.test_a_killed_command_leaves_no_server_and_no_rows(
        make_database, directory, tmp_path, words
    )
