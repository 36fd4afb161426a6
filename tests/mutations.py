"""What can be changed in a module so that one thing goes wrong: its edits, found in its syntax tree.

Left alone is what no behaviour depends on, or what would only trip over its own feet: docstrings, annotations, error
messages, assertions and `check` methods, `__slots__`, the keywords of a class, assignments without which a name does
not exist.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
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

_MULTIPLIER_LEAST = 1 << 60
"""Constants from here on mix bits; others would do as well."""

_UNTOUCHED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)

_UNTOUCHED_FIELDS = {"annotation", "returns", "decorator_list"}

Node: TypeAlias = ast.expr | ast.stmt
"""What has a place in the source."""

Edit: TypeAlias = tuple[Node, str, str]
"""What is replaced, the name of the mutation, and what stands there instead."""


def edits(tree: ast.Module) -> Iterator[tuple[str, Edit]]:
    """Every edit of a module, each with the function it lies in, as `Class.method`."""
    return _walk(tree, "", _Function())


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
    for child in _children(node):
        yield from _walk(child, where, function)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return  # a sign and its number are one
        case ast.If(test=ast.Compare() as test) if _raises(node):
            yield from (test.left, *test.comparators, *node.body, *node.orelse)
            return
    for field, value in ast.iter_fields(node):
        if field not in _UNTOUCHED_FIELDS and not (field == "keywords" and isinstance(node, ast.ClassDef)):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def _raises(node: ast.If) -> bool:
    """Whether it reads `if new > old: old = new`, where >= would do the same."""
    match node:
        case ast.If(test=ast.Compare(left=left, ops=[ast.Gt()]), body=[ast.Assign(value=value)]):
            return ast.dump(left) == ast.dump(value)
    return False


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
        case ast.Constant(value=int() as value) if value < _MULTIPLIER_LEAST:
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
