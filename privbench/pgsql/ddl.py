"""The allow-list of the statements that a model's DDL may run in a target database.

A model's DDL is SQL that somebody else wrote. Each statement is parsed (`parser`) and must be of a
kind that makes part of a schema. It may name objects of the server (`names`), objects of listed
extensions, and objects that earlier statements have made, but nothing else: so nothing that was in
the target before is read, changed or called. `elements` judges columns, types and options of a
statement; `judge` judges its expressions and queries, which may only compute.

Programs (functions, triggers, rules, operators …) and views, indexes, policies, CHECKs and defaults
that call one are left out where they are statements of their own. A table or a type that cannot be
made without a program is refused, and so is every statement that no dump of a schema holds.

All of this requires that the load runs each statement alone, with an empty search path and
`parser.SETTINGS`. A statement that the parser cannot read, for example of a later PostgreSQL, is
never run, whoever made it: it is left out by name, or the DDL is refused if rows need it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from privbench.errors import ModelError
from privbench.pgsql import names
from privbench.pgsql.created_objects import Made, qualified
from privbench.pgsql.elements import elements, listed, method, named, opclass, own, plainly_kept
from privbench.pgsql.judge import NotAllowed, QualifiedName, constant, plain, relation_name, shown
from privbench.pgsql.parser import Node, SqlError, Statement, cut, tokens

_REMEDY = "Read it (unzip -p MODEL ddl/pre.sql ddl/post.sql), then use --trust-programs."
#: Kinds of statements that define programs, or enable or disable them.
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
#: How those statements begin that may be left out if the parser cannot read them: they make or
#: change an object, but none that rows or other statements need. Between words is one blank.
_OPTIONAL = re.compile(
    r"(?:CREATE (?!(?:(?:GLOBAL |LOCAL )?TEMP(?:ORARY)? |UNLOGGED )?"
    r"(?:TABLE|TYPE|DOMAIN|SEQUENCE|SCHEMA)\b)|ALTER )",
    re.IGNORECASE,
)
_VIEW = re.compile(r'CREATE (?:OR REPLACE )?(?:MATERIALIZED )?VIEW ((?:"(?:[^"]|"")+"|[\w$.])+)')
_SWITCHES = re.compile(r"AT_(Enable|Disable)\w*(Trig|Rule)\w*")
#: Settings that pg_dump writes between tables, with the values that they may have.
SETTINGS_OF_TABLES = {"default_tablespace": ("",), "default_table_access_method": ("heap",)}


@dataclass(frozen=True, slots=True)
class Allowed:
    """The result of judging DDL: statements to run, and what is left out."""

    # For each of the given texts, its statements to run, in order and each alone.
    parts: tuple[tuple[Statement, ...], ...]
    left_out: tuple[str, ...] = ()  # objects that are not made, and why, a line each
    columns: frozenset[str] = frozenset()  # names that the statements give to columns

    def made(self) -> dict[str, set[QualifiedName]]:
        """Return the names of the tables, sequences and views that the statements make.

        Sequences also come with identity columns.
        """
        names_made: dict[str, set[QualifiedName]] = {
            "tables": set(),
            "sequences": set(),
            "views": set(),
        }
        for tree in (item.tree for part in self.parts for item in part):
            if tree.kind == "CreateStmt":
                names_made["tables"].add(relation_name(tree.nodes("relation")[0]))
            elif tree.kind == "CreateSeqStmt":
                names_made["sequences"].add(relation_name(tree.nodes("sequence")[0]))
            elif tree.kind == "CreateTableAsStmt":
                names_made["views"].add(relation_name(tree.nodes("into")[0].nodes("rel")[0]))
            for node in tree.walk():
                if node.kind == "DefElem" and node.get("defname") == "sequence_name":
                    names_made["sequences"].add(node.nodes("arg")[0].names("items"))
        return names_made


def allowed(*texts: str) -> Allowed:
    """Judge the DDL of a model, given in parts: before the rows, and after the rows.

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
    objects = Made()
    parts, left_out = [], []
    for text in texts:
        run = []
        for statement in _cut(text):
            try:
                with objects.statement():
                    _judge(statement, objects)
            except NotAllowed as reason:
                left_out.append(f"left out: {head(statement.text)}: {reason}")
            else:
                run.append(statement)
        parts.append(tuple(run))
    columns = frozenset(name for (name,) in objects.found.get("columns", ()))
    return Allowed(tuple(parts), tuple(left_out), columns)


def trusted(*texts: str) -> Allowed:
    """Split the DDL of a trusted source into statements, none of which is refused."""
    gone = set[QualifiedName]()
    parts, left_out = zip(*(readable(_cut(text), gone) for text in texts), strict=True)
    return Allowed(tuple(map(tuple, parts)), tuple(line for lines in left_out for line in lines))


def _cut(text: str) -> list[Statement]:
    try:
        return known(cut(text))
    except SqlError as error:
        raise ModelError(f"the model's DDL cannot be read: {error.message}") from None


def known(statements: list[Statement]) -> list[Statement]:
    """Return the statements; raise a SqlError if an indispensable one cannot be parsed."""
    for item in statements:
        if item.fault:
            words = " ".join(word.text for word in tokens(item.text)[:5])
            if not _OPTIONAL.match(words):
                raise SqlError(item.fault)
    return statements


def readable(
    statements: list[Statement], gone: set[QualifiedName]
) -> tuple[list[Statement], list[str]]:
    """Return the statements that could be parsed, and a line for each of the others.

    A statement that depends on a view in ``gone``, which was left out, is left out too.
    """
    parsed, lines = [], []
    for item in statements:
        named = {relation_name(node) for node in item.tree.walk() if node.kind == "RangeVar"}
        if not (item.fault or named & gone):
            parsed.append(item)
            continue
        why = _unread(item) if item.fault else "it is built upon what is left out"
        lines.append(f"left out: {head(item.text)}: {why}")
        view = _VIEW.match(item.text)
        if view:
            gone.add(qualified(view[1]))
    return parsed, lines


def _unread(statement: Statement) -> str:
    return f"it cannot be read ({statement.fault.rstrip('.')})"


def head(text: str) -> str:
    """Return the kind and name of a statement for messages: its beginning on one line."""
    line = " ".join(text.split("(", 1)[0].split())
    return line[:120]


def _judge(statement: Statement, objects: Made) -> None:
    """Judge one statement and remember what it makes.

    Raises:
        NotAllowed: The statement is refused, but can be left out.
        ModelError: The statement is refused and cannot be left out.
    """
    if statement.fault:
        raise NotAllowed(_unread(statement))
    tree = statement.tree
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
        rule(tree, objects)
    except NotAllowed as reason:
        if tree.kind in _NEEDED:
            raise ModelError(
                f"the model's DDL makes an object that needs trust ({head(statement.text)}): "
                f"{reason}.",
                remedy=_REMEDY,
            ) from None
        raise


#: Kinds of statements that rows or other statements need, so that they cannot be left out.
_NEEDED = frozenset(
    """
    AlterSeqStmt CompositeTypeStmt CreateDomainStmt CreateEnumStmt CreateRangeStmt CreateSchemaStmt
    CreateSeqStmt CreateStmt VariableSetStmt
    """.split()
)


def _schema(tree: Node, objects: Made) -> None:
    name = str(tree.get("schemaname", ""))
    if tree.get("schemaElts") or tree.get("authrole") or not name or names.is_system(name):
        raise ModelError(f"the model's DDL makes the schema {name} otherwise than a dump does.")
    objects.schemas.add(name)


def _extension(tree: Node, objects: Made) -> None:
    name = str(tree.get("extname", ""))
    options = {str(option.get("defname")): option for option in tree.nodes("options")}
    if set(options) != {"schema"}:
        raise ModelError(f"the model's DDL makes the extension {name} otherwise than a dump does.")
    if name not in names.extensions():
        raise NotAllowed("it is none of the extensions that only add types and operators")
    schema = str(options["schema"].nodes("arg")[0].get("sval", ""))
    if not schema or names.is_system(schema):
        raise NotAllowed(f"it puts an extension into {schema}")
    objects.extend(name, schema)


def _setting(tree: Node, objects: Made) -> None:
    values = tuple(constant(node) for node in tree.nodes("args"))
    if tree.get("is_local") or SETTINGS_OF_TABLES.get(str(tree.get("name"))) != values:
        raise ModelError(f"the model's DDL sets {tree.get('name')}, which no dump does.")


def _create_table(tree: Node, objects: Made) -> None:
    name = named(tree, "relation")
    objects.claim(name, "relations", "types")
    plainly_kept(tree)
    if tree.get("oncommit", "ONCOMMIT_NOOP") != "ONCOMMIT_NOOP":
        raise ModelError(f"the model's DDL makes {shown(name)} otherwise than a dump does.")
    method(tree.get("accessMethod", ""), objects)
    elements(tree, objects)
    _constraints(tree, name[0], objects)


def _constraints(tree: Node, schema: str, objects: Made) -> None:
    """Remember the indexes and sequences that constraints make."""
    for node in tree.walk():
        if node.get("contype") in _INDEXED and node.get("conname"):
            objects.add("relations", (schema, str(node.get("conname"))))
        if node.kind == "DefElem" and node.get("defname") == "sequence_name":
            objects.claim(listed(node), "relations", "sequences")


def _sequence(tree: Node, objects: Made) -> None:
    name = named(tree, "sequence")
    if tree.kind == "AlterSeqStmt":
        own(objects, "sequences", name)
    objects.claim(name, "relations", "sequences")
    plainly_kept(tree)
    elements(tree, objects)
    for option in tree.nodes("options"):
        if option.get("defname") == "owned_by" and listed(option) != ("none",):
            own(objects, "relations", listed(option)[:-1])


def _alter(tree: Node, objects: Made) -> None:
    own(objects, "relations", named(tree, "relation"))
    for command in tree.nodes("cmds"):
        kind = str(command.get("subtype", "AT_AddColumn"))
        if _SWITCHES.fullmatch(kind):
            raise NotAllowed("it switches a trigger or a rule")
        if kind not in _ALTER:
            raise ModelError(f"the model's DDL alters a table as no dump does ({kind}).")
        if kind == "AT_SetAccessMethod":
            method(command.get("name", ""), objects)
    elements(tree, objects)
    _constraints(tree, named(tree, "relation")[0], objects)


def _index(tree: Node, objects: Made) -> None:
    schema, _ = relation = named(tree, "relation")
    own(objects, "relations", relation)
    plainly_kept(tree)
    method(tree.get("accessMethod", ""), objects)
    elements(tree, objects)
    objects.claim((schema, str(tree.get("idxname", ""))), "relations")


def _view(tree: Node, objects: Made) -> None:
    name = named(tree, "view")
    if tree.get("replace") and not objects.knows("relations", name):
        raise ModelError(f"the model's DDL replaces {shown(name)}, which it does not make.")
    objects.claim(name, "relations", "types")
    plainly_kept(tree)
    elements(tree, objects)


def _materialised(tree: Node, objects: Made) -> None:
    into = tree.nodes("into")[0]
    if tree.get("objtype") != "OBJECT_MATVIEW" or not into.get("skipData"):
        raise ModelError("the model's DDL fills a table by a query, which no dump does.")
    if sum(node.kind == "IntoClause" for node in tree.walk()) != 1:
        raise ModelError("the model's DDL makes a table within a query.")
    objects.claim(named(into, "rel"), "relations", "types")
    plainly_kept(into)
    method(into.get("accessMethod", ""), objects)
    elements(tree, objects, "IntoClause")


def _type(tree: Node, objects: Made) -> None:
    if tree.kind == "CompositeTypeStmt":
        name = named(tree, "typevar")
        # Its name shares a namespace with the names of tables.
        objects.claim(name, "types", "relations")
    else:
        name = tree.names("domainname" if tree.kind == "CreateDomainStmt" else "typeName")
        objects.claim(name, "types")
    elements(tree, objects)


def _range(tree: Node, objects: Made) -> None:
    objects.claim(tree.names("typeName"), "types")
    for option in tree.nodes("params"):
        name, value = str(option.get("defname")), listed(option)
        match name:
            case "subtype":
                fine = objects.type(value)
            case "subtype_opclass":
                fine = opclass(value, objects)
            case "collation":
                fine = objects.collation(value)
            case "subtype_diff":
                fine = objects.function(value)
            case "multirange_type_name":
                objects.claim(value, "types")
                fine = True
            case _:
                fine = False
        if not fine:
            raise NotAllowed(f"it names {shown(value)} as {name}")


def _domain(tree: Node, objects: Made) -> None:
    own(objects, "types", tree.names("typeName"))
    if tree.get("subtype") not in ("C", "V"):
        raise ModelError("the model's DDL alters a domain as no dump does.")
    elements(tree, objects)


def _define(tree: Node, objects: Made) -> None:
    name = tree.names("defnames")
    kind = str(tree.get("kind"))
    options = {str(option.get("defname")): option for option in tree.nodes("definition")}
    if kind == "OBJECT_COLLATION":
        if "from" in options and not objects.collation(listed(options["from"])):
            raise NotAllowed("it copies a collation that is not its own")
        objects.claim(name, "collations")
    elif kind == "OBJECT_TSDICTIONARY":
        template = listed(options["template"]) if "template" in options else ()
        if not objects.offers("templates", template):
            raise NotAllowed(f"it names the template {shown(template)}")
        objects.claim(name, "others")
    elif kind == "OBJECT_TSCONFIGURATION" and set(options) == {"parser"}:
        if plain(listed(options["parser"])) != "default":
            raise NotAllowed("it names a parser of its own")
        objects.claim(name, "others")
    else:
        raise ModelError(f"the model's DDL holds a definition that is not allowed ({kind}).")


def _search(tree: Node, objects: Made) -> None:
    own(objects, "others", tree.names("cfgname"))
    for item in tree.nodes("dicts"):
        name = item.names("items")
        if not (objects.offers("dictionaries", name) or objects.knows("others", name)):
            raise NotAllowed(f"it names the dictionary {shown(name)}")


def _statistics(tree: Node, objects: Made) -> None:
    objects.claim(tree.names("defnames"))
    elements(tree, objects)
    objects.claim(tree.names("defnames"), "others")


def _alter_statistics(tree: Node, objects: Made) -> None:
    own(objects, "others", tree.names("defnames"))


def _policy(tree: Node, objects: Made) -> None:
    own(objects, "relations", named(tree, "table"))
    elements(tree, objects, "RoleSpec")


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
    "CreateStmt": _create_table,
    "CreateTableAsStmt": _materialised,
    "DefineStmt": _define,
    "IndexStmt": _index,
    "VariableSetStmt": _setting,
    "ViewStmt": _view,
}
#: Kinds of statements that a model may hold; those of programs run only if the model is trusted.
STATEMENTS = frozenset(_RULES) | frozenset(_PROGRAMS)
