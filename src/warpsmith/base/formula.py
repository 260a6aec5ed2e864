"""Arithmetic formulas of task files, such as `2*M*N*K`."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from warpsmith.base.errors import UsageError

Number = int | float

BINARY: dict[type[ast.AST], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max, "sqrt": math.sqrt, "log2": math.log2}
# Nesting grows with the length, and ast.parse of deep nesting exhausts the parser's stack.
LIMIT = 500  # characters; a formula is a line, not a program


def evaluate_formula(formula: str, names: Mapping[str, Number]) -> Number:
    """Return a formula's value. Raise UsageError for other syntax."""
    if len(formula) > LIMIT:
        raise UsageError(f"Formula of {len(formula)} characters; at most {LIMIT} are read.")
    try:
        return _evaluate_node(ast.parse(formula, mode="eval").body, names)
    except SyntaxError as error:
        raise UsageError(f"Formula '{formula}' cannot be read: {error.msg}.") from None
    except ZeroDivisionError:
        raise UsageError(f"Formula '{formula}' divides by zero for {dict(names)}.") from None
    except KeyError as error:
        raise UsageError(f"Formula '{formula}' names {error.args[0]}; known are {', '.join(sorted(names))}.") from None


def _evaluate_node(node: ast.expr, names: Mapping[str, Number]) -> Number:
    # Only the syntax below is evaluated: a formula comes from a task file, and eval() would run its code.
    """Return the value of a syntax node. Raise UsageError for other syntax."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return BINARY[type(op)](_evaluate_node(left, names), _evaluate_node(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in BINARY:
            return BINARY[type(op)](_evaluate_node(left, names), _evaluate_node(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate_node(operand, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_evaluate_node(arg, names) for arg in args))
    raise UsageError(
        f"'{ast.unparse(node)}' has no place in a formula; use + - * / // % comparisons min max sqrt log2."
    )
