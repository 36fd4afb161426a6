"""From the source of a module to its mutants: copies of it that differ in one place.

Pure text in, text out; `tests/mutants.py` judges what comes of it. Left alone is what no behaviour depends on, or
what would only trip over its own feet: docstrings, annotations, error messages, assertions and `check` methods,
`__slots__`, the keywords of a class, assignments without which a name does not exist.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

_PAIRS: tuple[tuple[tuple[type[ast.cmpop], str], tuple[type[ast.cmpop], str]], ...] = (
    ((ast.Lt, "<"), (ast.LtE, "<=")),
    ((ast.Gt, ">"), (ast.GtE, ">=")),
    ((ast.Eq, "=="), (ast.NotEq, "!=")),
    ((ast.Is, "is"), (ast.IsNot, "is not")),
    ((ast.In, "in"), (ast.NotIn, "not in")),
)
_SWAPPED = {
    one: (sign, other, other_sign)
    for pair in _PAIRS
    for (one, sign), (other, other_sign) in (pair, pair[::-1])
}
"""Comparison → its sign, the comparison that replaces it, and that one's sign."""

_UNTOUCHED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)

_UNTOUCHED_FIELDS = {"annotation", "returns", "decorator_list"}

Node: TypeAlias = ast.expr | ast.stmt
"""What has a place in the source."""

Edit: TypeAlias = tuple[Node, str, str]
"""What is replaced, the name of the mutation, and what stands there instead."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One module with one change."""

    module: str
    """File name of the module."""
    line: int
    function: str
    """As `Class.method`; empty at the top of the module."""
    text: str
    """The line that the change begins in, as it was, without the space around it."""
    mutation: str
    """Kind and change, such as `compare:<→<=`; with #2 if it is the second of its kind on the line."""
    source: str
    """The whole module, changed."""

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}:{self.mutation}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Names the mutant as long as its own line stays as it is, wherever that line moves."""
        return self.module, self.function, self.text, self.mutation


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of `source`, in the order of its lines."""
    lines = source.split("\n")
    seen: Counter[tuple[int, str]] = Counter()
    found = sorted(_walk(ast.parse(source), "", _Function()), key=lambda each: _start(each[1][0]))
    for function, (node, mutation, text) in found:
        line, _ = _start(node)
        seen[line, mutation] += 1
        count = seen[line, mutation]
        label = mutation if count == 1 else f"{mutation}#{count}"
        yield Mutant(module, line, function, lines[line - 1].strip(), label, _replaced(source, node, text))


class _Function:
    """What matters about the function around a statement."""

    def __init__(self, node: ast.FunctionDef | None = None) -> None:
        self.is_init = node is not None and node.name == "__init__"
        self.is_one = node is not None
        self.last = node.body[-1] if node is not None else None
        self.bound: Counter[str] = Counter()
        """Name → how often it is bound."""
        for each in ast.walk(node) if node is not None else ():
            if isinstance(each, ast.arg):
                self.bound[each.arg] += 1
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.bound[each.id] += 1


def _walk(node: ast.AST, where: str, function: _Function) -> Iterator[tuple[str, Edit]]:
    if isinstance(node, _UNTOUCHED) or _declares_slots(node):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        if node.name == "check" and where:
            return
        where = f"{where}.{node.name}".lstrip(".")
    if isinstance(node, ast.FunctionDef):
        function = _Function(node)
    for edit in (*_of_expression(node), *_of_statement(node, function)):
        yield where, edit
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return  # a sign and its number are one
    for field, value in ast.iter_fields(node):
        if field in _UNTOUCHED_FIELDS or (field == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, where, function)


def _of_expression(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for place, operator in enumerate(ops):
                sign, other, other_sign = _SWAPPED[type(operator)]
                changed = ast.Compare(left, [*ops[:place], other(), *ops[place + 1 :]], comparators)
                yield node, f"compare:{sign}→{other_sign}", _shown(changed)
        case ast.BoolOp(op=op, values=values):
            is_and = isinstance(op, ast.And)
            swapped = ast.BoolOp(ast.Or() if is_and else ast.And(), values)
            yield node, "bool:and→or" if is_and else "bool:or→and", _shown(swapped)
            for place in range(len(values)):
                rest = ast.BoolOp(op, values[:place] + values[place + 1 :])
                yield node, f"operand:{place + 1}→{is_and}", _shown(rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, "not:left out", _shown(operand)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            yield node, f"constant:-{value}→{1 - value}", f"({1 - value})"  # below nothing lies nothing else
        case ast.Constant(value=bool() as value):
            yield node, f"constant:{value}→{not value}", str(not value)
        case ast.Constant(value=int() as value):
            for other_value in (value + 1, value - 1):
                yield node, f"constant:{value}→{other_value}", f"({other_value})"
        case ast.Call(func=ast.Name(id="max" | "min" as name) as called):
            other_name = "min" if name == "max" else "max"
            yield called, f"call:{name}→{other_name}", other_name
        case ast.IfExp(test=test):
            yield from _forced(test, True, False)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _forced(test, True, False)


def _of_statement(node: ast.AST, function: _Function) -> Iterator[Edit]:
    match node:
        case ast.If(test=test):
            yield from _forced(test, True, False)
        case ast.While(test=test):
            yield from _forced(test, False)  # for ever would only show as a timeout
    for block in ("body", "orelse", "finalbody"):
        statements = getattr(node, block, ())
        if not function.is_one or not isinstance(statements, list):
            continue
        if isinstance(node, ast.If) and len(statements) == 1 and not node.orelse:
            continue  # the condition forced to be false is the same
        for statement in statements:
            if _can_do_without(statement, function):
                yield statement, "delete", "pass"


def _can_do_without(statement: ast.stmt, function: _Function) -> bool:
    match statement:
        case ast.Return() | ast.Continue() | ast.Break():
            return statement is not function.last
        case ast.Expr(value=ast.Call()) | ast.Delete() | ast.AugAssign():
            return True
        case ast.Assign(targets=targets):
            return not function.is_init and any(_outlives(target, function) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr()):
            return not function.is_init and _outlives(target, function)
    return False


def _outlives(target: ast.expr, function: _Function) -> bool:
    """Whether something else gives a value to `target` too."""
    if isinstance(target, ast.Tuple):
        return any(_outlives(each, function) for each in target.elts)
    return not isinstance(target, ast.Name) or function.bound[target.id] > 1


def _declares_slots(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets
    )


def _forced(test: ast.expr, *values: bool) -> Iterator[Edit]:
    for value in values:
        yield test, f"condition:{value}", str(value)


def _shown(expression: ast.expr) -> str:
    return f"({ast.unparse(expression)})"


def _start(node: Node) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _replaced(source: str, node: Node, text: str) -> str:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = source.encode().split(b"\n")  # columns count bytes
    before = b"\n".join([*lines[: node.lineno - 1], lines[node.lineno - 1][: node.col_offset]])
    after = b"\n".join([lines[node.end_lineno - 1][node.end_col_offset :], *lines[node.end_lineno :]])
    return (before + text.encode() + after).decode()
