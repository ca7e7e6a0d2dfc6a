"""The DDL that a model may bring to a target: the allow-list of statements.

A model's DDL is SQL that somebody else wrote. Each statement is parsed (`parser`), must be of a
kind that makes part of a schema, and may name what the server brings (`names`), what the listed
extensions bring, and what statements before it have made: nothing else, so that nothing which was
in the target is read, changed or called. Expressions and queries in it only compute (`judge`).

What brings a program of its own (functions, triggers, rules, operators …) or calls one is left out
where the rows can do without it: a view, an index, a policy, a CHECK or a default of its own
statement. A table or a type that cannot be made without it is refused, and so is every statement
that no schema's dump holds.

It presumes that the load runs each statement alone, with an empty search path and
`parser.SETTINGS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from privbench.errors import ModelError
from privbench.pgsql import names
from privbench.pgsql.judge import (
    EXPRESSIONS,
    Name,
    NotAllowed,
    constant,
    judge,
    operators,
    plain,
    relation_name,
    shown,
)
from privbench.pgsql.made import Made
from privbench.pgsql.parser import Node, SqlError, Statement, statements

_REMEDY = "Read it (unzip -p MODEL ddl/pre.sql ddl/post.sql), then use --trust-programs."
#: Kinds of statements that define programs, or switch them.
_PROGRAMS = {
    "AlterFunctionStmt": "a function",
    "AlterObjectDependsStmt": "a dependence on an extension",
    "AlterOpFamilyStmt": "an operator family",
    "AlterOperatorStmt": "an operator",
    "CreateAmStmt": "an access method",
    "CreateCastStmt": "a cast",
    "CreateConversionStmt": "a conversion",
    "CreateFunctionStmt": "a function",
    "CreateOpClassStmt": "an operator class",
    "CreateOpFamilyStmt": "an operator family",
    "CreatePLangStmt": "a language",
    "CreateTransformStmt": "a transform",
    "CreateTrigStmt": "a trigger",
    "RuleStmt": "a rule",
}
_DEFINED_PROGRAMS = {
    "OBJECT_AGGREGATE": "an aggregate",
    "OBJECT_OPERATOR": "an operator",
    "OBJECT_TSPARSER": "a text search parser",
    "OBJECT_TSTEMPLATE": "a text search template",
    "OBJECT_TYPE": "a base type",
}
_METHODS = frozenset(["", "heap", "btree", "hash", "gist", "gin", "spgist", "brin"])
#: What ALTER TABLE may do, as pg_dump writes it.
_ALTER = frozenset(
    f"AT_{name}"
    for name in """
    AddConstraint AddIdentity AddInherit AlterConstraint AttachPartition ClusterOn ColumnDefault
    DropNotNull EnableRowSecurity ForceRowSecurity NoForceRowSecurity ReplicaIdentity
    SetAccessMethod SetCompression SetIdentity SetNotNull SetRelOptions SetStatistics SetStorage
    ValidateConstraint
    """.split()
)
#: Constraints that are made with an index of their name.
_INDEXED = frozenset(["CONSTR_PRIMARY", "CONSTR_UNIQUE", "CONSTR_EXCLUSION"])
_SWITCHES = re.compile(r"AT_(Enable|Disable)\w*(Trig|Rule)\w*")
#: Kinds of nodes that statements are made of, beside those of expressions.
_PARTS = EXPRESSIONS | frozenset(
    """
    AlterTableCmd Constraint DefElem IndexElem PartitionBoundSpec PartitionCmd PartitionElem
    PartitionRangeDatum PartitionSpec ReplicaIdentityStmt StatsElem
    """.split()
)
#: Options of tables, indexes, views, sequences and of what CREATE … (name = value) defines.
_OPTIONS = re.compile(
    r"""fillfactor|parallel_workers|autovacuum_\w+|log_autovacuum_min_duration|toast_tuple_target
    |vacuum_\w+|user_catalog_table|deduplicate_items|buffering|fastupdate|gin_pending_list_limit
    |pages_per_range|autosummarize|length|col\d+|lists|m|ef_construction|siglen|numranges
    |values_per_range|n_distinct_per_range|false_positive_rate
    |security_barrier|security_invoker|check_option
    |as|start|increment|minvalue|maxvalue|cache|cycle|owned_by|sequence_name""",
    re.VERBOSE,
)
#: Settings that pg_dump writes between tables, with the values that they may have.
SETTINGS_OF_TABLES = {"default_tablespace": ("",), "default_table_access_method": ("heap",)}


@dataclass(frozen=True, slots=True)
class Allowed:
    """DDL that was judged.

    Attributes:
        parts: Statements to run, in order, each alone; for every text that was given.
        left_out: What is not made, and why, a line each.
    """

    parts: tuple[tuple[Statement, ...], ...]
    left_out: tuple[str, ...] = ()


def allowed(*texts: str) -> Allowed:
    """Judge the DDL of a model.

    Args:
        texts: The DDL, part by part: what is made before the rows, and what after them.

    Raises:
        ModelError: A statement does what no schema needs, or a table cannot be made without a
            program that is not trusted.

    >>> allowed("CREATE TABLE public.a (i int DEFAULT 1);").parts[0][0].text
    'CREATE TABLE public.a (i int DEFAULT 1)'
    >>> allowed("COPY a TO PROGRAM 'sh'")
    Traceback (most recent call last):
    ...
    privbench.errors.ModelError: the model's DDL holds a statement that is not allowed (CopyStmt).
    """
    made = Made()
    parts, left_out = [], []
    for text in texts:
        run = []
        for found in _cut(text):
            try:
                _judge(found, made)
            except NotAllowed as reason:
                left_out.append(f"left out: {_head(found.text)}: {reason}")
            else:
                run.append(found)
        parts.append(tuple(run))
    return Allowed(tuple(parts), tuple(left_out))


def trusted(*texts: str) -> Allowed:
    """The statements of DDL whose maker is trusted: cut, not judged.

    Raises:
        ModelError: PostgreSQL's parser does not take it.
    """
    return Allowed(tuple(tuple(_cut(text)) for text in texts))


def _cut(text: str) -> list[Statement]:
    try:
        return statements(text)
    except SqlError as error:
        raise ModelError(f"the model's DDL cannot be read: {error.message}") from None


def _head(text: str) -> str:
    """The first line of a statement, for people."""
    line = " ".join(text.split("(", 1)[0].split())
    return line[:120]


def _judge(found: Statement, made: Made) -> None:
    """Judge one statement and remember what it makes.

    Raises:
        NotAllowed: It can be left out.
        ModelError: It cannot.
    """
    tree = found.tree
    program = _PROGRAMS.get(tree.kind)
    if tree.kind == "DefineStmt":
        program = _DEFINED_PROGRAMS.get(str(tree.get("kind")))
    if program:
        raise NotAllowed(f"it defines {program}")
    rule = _RULES.get(tree.kind)
    if rule is None:
        raise ModelError(f"the model's DDL holds a statement that is not allowed ({tree.kind}).")
    if tree.get("if_not_exists") and tree.kind not in ("CreateExtensionStmt", "CreateSchemaStmt"):
        raise ModelError("the model's DDL would take for its own what is there (IF NOT EXISTS).")
    try:
        rule(tree, made)
    except NotAllowed as reason:
        if tree.kind in _NEEDED:
            raise ModelError(
                f"the model's DDL makes what calls for trust ({_head(found.text)}): {reason}.",
                remedy=_REMEDY,
            ) from None
        raise


#: Statements without which rows or other statements cannot be.
_NEEDED = frozenset(
    """
    AlterSeqStmt CompositeTypeStmt CreateDomainStmt CreateEnumStmt CreateRangeStmt CreateSchemaStmt
    CreateSeqStmt CreateStmt VariableSetStmt
    """.split()
)


def _parts(tree: Node, made: Made, *kinds: str) -> None:
    """Judge everything in a statement, and remember the columns that it names."""
    made.columns |= judge(tree, made, _PARTS | {tree.kind, *kinds})
    for node in tree.walk():
        check = _CHECKS.get(node.kind)
        if check is not None:
            check(node, made)


def _schema(tree: Node, made: Made) -> None:
    name = str(tree.get("schemaname", ""))
    if tree.get("schemaElts") or tree.get("authrole") or not name or names.is_system(name):
        raise ModelError(f"the model's DDL makes the schema {name} otherwise than a dump does.")
    made.schemas.add(name)


def _extension(tree: Node, made: Made) -> None:
    name = str(tree.get("extname", ""))
    options = {str(option.get("defname")): option for option in tree.nodes("options")}
    if set(options) != {"schema"}:
        raise ModelError(f"the model's DDL makes the extension {name} otherwise than a dump does.")
    if name not in names.extensions():
        raise NotAllowed("it is none of the extensions that only add types and operators")
    schema = str(options["schema"].nodes("arg")[0].get("sval", ""))
    if not schema or names.is_system(schema):
        raise NotAllowed(f"it puts an extension into {schema}")
    made.extend(name, schema)


def _setting(tree: Node, made: Made) -> None:
    values = tuple(constant(node) for node in tree.nodes("args"))
    if tree.get("is_local") or SETTINGS_OF_TABLES.get(str(tree.get("name"))) != values:
        raise ModelError(f"the model's DDL sets {tree.get('name')}, which no dump does.")


def _table(tree: Node, made: Made) -> None:
    name = _of(tree, "relation")
    made.claim(name, made.relations, made.types)
    _keep(tree)
    if tree.get("oncommit", "ONCOMMIT_NOOP") != "ONCOMMIT_NOOP":
        raise ModelError(f"the model's DDL makes {shown(name)} otherwise than a dump does.")
    _method(tree.get("accessMethod", ""), made)
    _parts(tree, made)
    _constraints(tree, name[0], made)


def _constraints(tree: Node, schema: str, made: Made) -> None:
    """Remember the indexes and sequences that constraints make."""
    for node in tree.walk():
        if node.get("contype") in _INDEXED and node.get("conname"):
            made.relations.add((schema, str(node.get("conname"))))
        if node.kind == "DefElem" and node.get("defname") == "sequence_name":
            made.claim(_listed(node), made.relations, made.sequences)


def _sequence(tree: Node, made: Made) -> None:
    name = _of(tree, "sequence")
    if tree.kind == "AlterSeqStmt":
        _own(name, made.sequences)
    made.claim(name, made.relations, made.sequences)
    _keep(tree)
    _parts(tree, made)
    for option in tree.nodes("options"):
        if option.get("defname") == "owned_by" and _listed(option) != ("none",):
            _own(_listed(option)[:-1], made.relations)


def _alter(tree: Node, made: Made) -> None:
    _own(_of(tree, "relation"), made.relations)
    for command in tree.nodes("cmds"):
        kind = str(command.get("subtype", "AT_AddColumn"))
        if _SWITCHES.fullmatch(kind):
            raise NotAllowed("it switches a trigger or a rule")
        if kind not in _ALTER:
            raise ModelError(f"the model's DDL alters a table as no dump does ({kind}).")
        if kind == "AT_SetAccessMethod":
            _method(command.get("name", ""), made)
    _parts(tree, made)
    _constraints(tree, _of(tree, "relation")[0], made)


def _index(tree: Node, made: Made) -> None:
    schema, _ = relation = _of(tree, "relation")
    _own(relation, made.relations)
    _keep(tree)
    _method(tree.get("accessMethod", ""), made)
    _parts(tree, made)
    made.claim((schema, str(tree.get("idxname", ""))), made.relations)


def _view(tree: Node, made: Made) -> None:
    name = _of(tree, "view")
    again = name in made.relations
    if tree.get("replace") and not again:
        raise ModelError(f"the model's DDL replaces {shown(name)}, which it does not make.")
    made.claim(name, made.relations, made.types)
    try:
        _keep(tree)
        _parts(tree, made)
    except NotAllowed:
        if not again:
            made.relations.discard(name)
            made.types.discard(name)
        raise


def _materialised(tree: Node, made: Made) -> None:
    into = tree.nodes("into")[0]
    if tree.get("objtype") != "OBJECT_MATVIEW" or not into.get("skipData"):
        raise ModelError("the model's DDL fills a table by a query, which no dump does.")
    if sum(node.kind == "IntoClause" for node in tree.walk()) != 1:
        raise ModelError("the model's DDL makes a table within a query.")
    name = _of(into, "rel")
    made.claim(name, made.relations, made.types)
    try:
        _keep(into)
        _method(into.get("accessMethod", ""), made)
        _parts(tree, made, "IntoClause")
    except NotAllowed:
        made.relations.discard(name)
        made.types.discard(name)
        raise


def _type(tree: Node, made: Made) -> None:
    if tree.kind == "CompositeTypeStmt":
        name = _of(tree, "typevar")
        # Its name stands where a table's does.
        made.claim(name, made.types, made.relations)
    else:
        name = tree.names("domainname" if tree.kind == "CreateDomainStmt" else "typeName")
        made.claim(name, made.types)
    _parts(tree, made)


def _range(tree: Node, made: Made) -> None:
    made.claim(tree.names("typeName"), made.types)
    for option in tree.nodes("params"):
        name, given = str(option.get("defname")), _listed(option)
        match name:
            case "subtype":
                fine = made.type(given)
            case "subtype_opclass":
                fine = _opclass(given, made)
            case "collation":
                fine = made.collation(given)
            case "subtype_diff":
                fine = made.function(given)
            case "multirange_type_name":
                made.claim(given, made.types)
                fine = True
            case _:
                fine = False
        if not fine:
            raise NotAllowed(f"it names {shown(given)} as {name}")


def _domain(tree: Node, made: Made) -> None:
    _own(tree.names("typeName"), made.types)
    if tree.get("subtype") not in ("C", "V"):
        raise ModelError("the model's DDL alters a domain as no dump does.")
    _parts(tree, made)


def _define(tree: Node, made: Made) -> None:
    name = tree.names("defnames")
    kind = str(tree.get("kind"))
    options = {str(option.get("defname")): option for option in tree.nodes("definition")}
    if kind == "OBJECT_COLLATION":
        if "from" in options and not made.collation(_listed(options["from"])):
            raise NotAllowed("it copies a collation that is not its own")
        made.claim(name, made.collations)
    elif kind == "OBJECT_TSDICTIONARY":
        template = _listed(options["template"]) if "template" in options else ()
        if plain(template) is None and not made.brings("templates", template):
            raise NotAllowed(f"it names the template {shown(template)}")
        made.claim(name, made.others)
    elif kind == "OBJECT_TSCONFIGURATION" and set(options) == {"parser"}:
        if plain(_listed(options["parser"])) != "default":
            raise NotAllowed("it names a parser of its own")
        made.claim(name, made.others)
    else:
        raise ModelError(f"the model's DDL holds a definition that is not allowed ({kind}).")


def _search(tree: Node, made: Made) -> None:
    _own(tree.names("cfgname"), made.others)
    for item in tree.nodes("dicts"):
        name = item.names("items")
        if (
            plain(name) is None
            and name not in made.others
            and not made.brings("dictionaries", name)
        ):
            raise NotAllowed(f"it names the dictionary {shown(name)}")


def _statistics(tree: Node, made: Made) -> None:
    made.claim(tree.names("defnames"))
    _parts(tree, made)
    made.claim(tree.names("defnames"), made.others)


def _alter_statistics(tree: Node, made: Made) -> None:
    _own(tree.names("defnames"), made.others)


def _policy(tree: Node, made: Made) -> None:
    _own(_of(tree, "table"), made.relations)
    _parts(tree, made, "RoleSpec")


_RULES: dict[str, Callable[[Node, Made], None]] = {
    "AlterDomainStmt": _domain,
    "AlterSeqStmt": _sequence,
    "AlterStatsStmt": _alter_statistics,
    "AlterTSConfigurationStmt": _search,
    "AlterTableStmt": _alter,
    "CompositeTypeStmt": _type,
    "CreateDomainStmt": _type,
    "CreateEnumStmt": _type,
    "CreateExtensionStmt": _extension,
    "CreatePolicyStmt": _policy,
    "CreateRangeStmt": _range,
    "CreateSchemaStmt": _schema,
    "CreateSeqStmt": _sequence,
    "CreateStatsStmt": _statistics,
    "CreateStmt": _table,
    "CreateTableAsStmt": _materialised,
    "DefineStmt": _define,
    "IndexStmt": _index,
    "VariableSetStmt": _setting,
    "ViewStmt": _view,
}
#: Kinds of statements that a schema may travel with; programs among them want trust.
STATEMENTS = frozenset(_RULES) | frozenset(_PROGRAMS)


def _of(tree: Node, part: str) -> Name:
    """The qualified name of a relation that a statement is about."""
    return relation_name(tree.nodes(part)[0])


def _own(name: Name, made: set[Name]) -> None:
    if name not in made:
        raise NotAllowed(f"it is about {shown(name)}, which the model does not make")


def _keep(tree: Node) -> None:
    """Refuse temporary relations and tablespaces."""
    persistence = {n.get("relpersistence", "p") for n in tree.children() if n.kind == "RangeVar"}
    places = [tree.get(name) for name in ("tablespacename", "tableSpaceName", "tableSpace")]
    if persistence - {"p", "u"} or any(places):
        raise ModelError("the model's DDL makes a temporary table, or names a tablespace.")


def _method(name: object, made: Made) -> None:
    methods = {method for _, method in made.brought.get("methods", ())}
    if name not in _METHODS | methods:
        raise NotAllowed(f"it names the access method {name}")


def _opclass(name: Name, made: Made) -> bool:
    return not name or plain(name) is not None or made.brings("opclasses", name)


def _element(node: Node, made: Made) -> None:
    name = node.names("opclass")
    if not _opclass(name, made):
        raise NotAllowed(f"it names the operator class {shown(name)}")
    collation = node.names("collation")
    if collation and not made.collation(collation):
        raise NotAllowed(f"it names the collation {shown(collation)}")


def _constraint(node: Node, made: Made) -> None:
    _method(node.get("access_method", ""), made)
    if node.get("indexspace"):
        raise ModelError("the model's DDL names a tablespace.")
    for pair in node.nodes("exclusions"):
        _, used = pair.nodes("items")
        operators(made, [used.names("items")])


def _option(node: Node, made: Made) -> None:
    name = str(node.get("defname"))
    if node.get("defnamespace") not in (None, "toast") or not _OPTIONS.fullmatch(name):
        raise NotAllowed(f"it sets the option {name}")


_CHECKS: dict[str, Callable[[Node, Made], None]] = {
    "Constraint": _constraint,
    "DefElem": _option,
    "IndexElem": _element,
    "PartitionElem": _element,
}


def _listed(option: Node) -> Name:
    """The words of an option's value, whatever it was taken for: a type, a list, a text."""
    found: Iterable[Node] = option.nodes("arg")
    words: list[str] = []
    for node in found:
        if node.kind == "TypeName":
            words += node.names("names")
        elif node.kind == "List":
            words += node.names("items")
        else:
            words.append(str(node.get("sval", node.get("fval", ""))))
    return tuple(words)
