"""Names that judged SQL may use: functions, types and operators that only compute.

The lists stand in ``names.json``, which ``scripts/sqlnames`` makes from servers of several major
versions. A name of `pg_catalog` is allowed if every function of that name computes its result from
its arguments, the clock or the session's locale. Volatility alone tells nothing: ``table_to_xml``
is stable. Every other name of `pg_catalog` is listed too, since ``(x).name`` can call a function.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

#: Functions of `pg_catalog` that queries of a workload may call in addition to the listed ones; the
#: DDL of a model may not. They are C code or SQL of the server, no user can replace them, and they
#: read nothing that the role may not read otherwise. None reads a file's content, runs a text that
#: it is given, waits, locks more than a reader does, or leaves anything in the session.
#:
#: Settings and the session: as ``SHOW``, pg_settings and pg_stat_activity tell them, with the same
#: rights. Sizes: lengths of files, never their content. Names, rights, comments and definitions:
#: look-ups in catalogs that every role may read. Statistics: counters behind pg_stat_user_tables.
#: Positions of the log, and the states of transactions. ``txid_current`` and ``pg_current_xact_id``
#: give the transaction a number, also where it is READ ONLY: the rolled-back run uses up one of
#: 2³² and an abort record, as a failed UPDATE would, but it changes no row.
#: ``currval`` and ``lastval`` tell what ``nextval``, which no query may call, left in the session.
#:
#: Left out on purpose: ``setseed`` (``random`` of whoever gets the session next from a pooler
#: would be known), ``set_config``, ``pg_notify``, advisory locks, ``pg_sleep``, ``lo_*``.
READING = frozenset(
    """
    current_setting pg_settings_get_flags
    pg_backend_pid inet_client_addr inet_client_port inet_server_addr inet_server_port
    current_schemas pg_is_in_recovery pg_postmaster_start_time pg_conf_load_time
    getdatabaseencoding pg_client_encoding pg_encoding_to_char pg_char_to_encoding
    pg_relation_size pg_table_size pg_indexes_size pg_total_relation_size pg_database_size
    pg_tablespace_size
    to_regclass to_regcollation to_regnamespace to_regoper to_regoperator to_regproc
    to_regprocedure to_regrole to_regtype to_regtypemod
    has_any_column_privilege has_column_privilege has_database_privilege
    has_foreign_data_wrapper_privilege has_function_privilege has_language_privilege
    has_largeobject_privilege has_parameter_privilege has_schema_privilege has_sequence_privilege
    has_server_privilege has_table_privilege has_tablespace_privilege has_type_privilege
    pg_has_role row_security_active
    obj_description col_description shobj_description
    format_type pg_get_constraintdef pg_get_expr pg_get_function_arguments
    pg_get_function_identity_arguments pg_get_function_result pg_get_functiondef pg_get_indexdef
    pg_get_partkeydef pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef
    pg_get_triggerdef pg_get_userbyid pg_get_viewdef
    pg_collation_is_visible pg_function_is_visible pg_operator_is_visible pg_table_is_visible
    pg_type_is_visible
    pg_stat_get_analyze_count pg_stat_get_autoanalyze_count pg_stat_get_autovacuum_count
    pg_stat_get_blocks_fetched pg_stat_get_blocks_hit pg_stat_get_dead_tuples
    pg_stat_get_ins_since_vacuum pg_stat_get_last_analyze_time pg_stat_get_last_autoanalyze_time
    pg_stat_get_last_autovacuum_time pg_stat_get_last_vacuum_time pg_stat_get_lastscan
    pg_stat_get_live_tuples pg_stat_get_mod_since_analyze pg_stat_get_numscans
    pg_stat_get_tuples_deleted pg_stat_get_tuples_fetched pg_stat_get_tuples_hot_updated
    pg_stat_get_tuples_inserted pg_stat_get_tuples_returned pg_stat_get_tuples_updated
    pg_stat_get_vacuum_count
    pg_current_wal_flush_lsn pg_current_wal_insert_lsn pg_current_wal_lsn
    pg_last_wal_receive_lsn pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_wal_lsn_diff
    currval lastval pg_current_snapshot pg_current_xact_id pg_current_xact_id_if_assigned
    pg_xact_status txid_current txid_current_if_assigned txid_current_snapshot txid_status
    """.split()
)
#: Functions of extensions that are not listed, but only tell what the server counts.
COUNTERS = {"pg_stat_statements": frozenset(["pg_stat_statements", "pg_stat_statements_info"])}
#: Functions that run the queries in their texts, and the extension of each; None is the server. A
#: call with texts that are constants, each a query that may be replayed, does what these do.
RUN_TEXTS = {
    "ts_stat": None,
    **dict.fromkeys(["crosstab", "crosstab2", "crosstab3", "crosstab4"], "tablefunc"),
}
#: Prefixes of schemas that are the server's own; models and workloads have no tables there.
SYSTEM_SCHEMAS = ("pg_", "information_schema")
#: The function that advances a sequence; allowed only for sequences that the statements make.
NEXTVAL = "nextval"


@cache
def _listed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("privbench.pgsql") / "names.json").read_text())
    return found


@cache
def functions() -> frozenset[str]:
    """Names of `pg_catalog` that may be called."""
    return frozenset(_listed()["functions"])


@cache
def others() -> frozenset[str]:
    """Names of the functions of `pg_catalog` that are not in `functions`, in all known versions."""
    return frozenset(_listed()["others"])


@cache
def extension(name: str) -> dict[str, frozenset[str]] | None:
    """Objects of a listed extension, by kind (functions, types, operators …); None if unlisted.

    >>> "hstore" in extension("hstore")["types"], extension("dblink")
    (True, None)
    """
    found = _listed()["extensions"].get(name)
    return None if found is None else {kind: frozenset(names) for kind, names in found.items()}


@cache
def extensions() -> frozenset[str]:
    """Names of the extensions that are listed."""
    return frozenset(_listed()["extensions"])


def may_call(field: str) -> bool:
    """Whether ``(x).field`` could call a function of `pg_catalog` that may not be called."""
    return field in others() or (field.startswith("pg_") and field not in functions())


def is_system(schema: str) -> bool:
    """Whether a schema is the server's own."""
    return schema.startswith(SYSTEM_SCHEMAS)
