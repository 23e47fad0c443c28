"""`--filter`: a condition on columns, in the words of pandas' query, that can do nothing else.

The text is parsed, never executed: names are columns, values are literals, and what is allowed is
listed here. A missing value fulfils no comparison; `isna()` finds it.
"""

from __future__ import annotations

import ast
import io
import operator
import tokenize
from collections.abc import Callable
from typing import Any, NoReturn

import pandas as pd

from analysis.errors import AnalysisError

LONGEST = 2000
WORDS = {"&": "and", "|": "or", "~": "not", "&&": "and", "||": "or"}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
TEXT_TESTS = ("contains", "startswith", "endswith")
ALLOWED = (
    "allowed: columns, numbers, 'text', == != < <= > >=, in [...], and or not & | ~, + - * /,"
    " column.isna(), .notna(), .isin([...]), .str.contains('x'), .str.startswith('x'),"
    " .str.endswith('x')"
)

Column = Callable[[str], "pd.Series[Any]"]


def matches(frame: pd.DataFrame, text: str, column: Callable[[str], object]) -> pd.Series[bool]:
    """Which rows fulfil the condition. `column` raises for a name that is no column.

    AnalysisError says what is wrong with the text.
    """
    tree = _parse(text)

    def values(name: str) -> pd.Series[Any]:
        column(name)
        return frame[name]

    try:
        found = _Reader(text, values).condition(tree)
    except RecursionError:
        raise AnalysisError(f"--filter: nested too deeply: {text!r:.80}") from None
    if isinstance(found, bool):
        return pd.Series(found, index=frame.index)
    return found


def _parse(text: str) -> ast.expr:
    """The tree; & | ~ bind like and, or, not, as in pandas' query."""
    if len(text) > LONGEST:
        raise AnalysisError(f"--filter: {len(text)} characters, at most {LONGEST} are read")
    try:
        tokens = [
            (tokenize.NAME, WORDS[t.string]) if t.string in WORDS else (t.type, t.string)
            for t in tokenize.generate_tokens(io.StringIO(text.strip()).readline)
        ]
        return ast.parse(tokenize.untokenize(tokens).strip(), "--filter", "eval").body
    except (SyntaxError, tokenize.TokenError, ValueError, MemoryError, RecursionError) as error:
        why = getattr(error, "msg", None) or str(error)
        raise AnalysisError(
            f"--filter: not a condition: {text!r:.200} ({why}); {ALLOWED}"
        ) from None


class _Reader:
    """Walks the tree; every kind of node that is not named here is refused."""

    def __init__(self, text: str, values: Column) -> None:
        self.text = text
        self.values = values

    def condition(self, node: ast.expr) -> pd.Series[bool] | bool:
        """A node that says yes or no."""
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(part) for part in node.values]
            joined = parts[0]
            for part in parts[1:]:
                joined = (joined & part) if isinstance(node.op, ast.And) else (joined | part)
            return joined
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.condition(node.operand)
            return (not inner) if isinstance(inner, bool) else ~inner
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Call):
            return self._test(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        raise self._error(node, "a condition is needed here")

    def _comparison(self, node: ast.Compare) -> pd.Series[bool] | bool:
        left = self._value(node.left)
        joined: pd.Series[bool] | bool = True
        for sign, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(sign, ast.In | ast.NotIn):
                found = self._is_in(left, self._list(right_node), node)
                right = left
                part = ~found & left.notna() if isinstance(sign, ast.NotIn) else found
            elif type(sign) in COMPARISONS:
                right = self._value(right_node)
                if isinstance(right_node, ast.List | ast.Tuple):
                    self._refuse(right_node, "a list goes with `in`")
                part = self._compare(COMPARISONS[type(sign)], left, right, node)
            else:
                self._refuse(node, "this comparison is not known")
            joined = part if joined is True else joined & part
            left = right
        return joined

    def _compare(
        self, sign: Callable[[Any, Any], Any], left: Any, right: Any, node: ast.expr
    ) -> pd.Series[bool] | bool:
        if _is_text(left) != _is_text(right):
            text, number = (left, right) if _is_text(left) else (right, left)
            self._refuse(node, f"{_name(text)} is text, {_name(number)} is a number")
        found = sign(left, right)
        if not isinstance(found, pd.Series):
            return bool(found)
        for side in (left, right):
            if isinstance(side, pd.Series):
                found = found & side.notna()
        whole: pd.Series[bool] = found.fillna(False).astype(bool)
        return whole

    def _is_in(self, left: Any, wanted: list[Any], node: ast.expr) -> pd.Series[bool]:
        if not isinstance(left, pd.Series):
            self._refuse(node, "a column goes before `in`")
        if any(_is_text(left) != _is_text(value) for value in wanted):
            kind = "text" if _is_text(left) else "a number"
            self._refuse(node, f"{_name(left)} is {kind}, not everything in the list is")
        return left.isin(wanted).fillna(False).astype(bool)

    def _test(self, node: ast.Call) -> pd.Series[bool]:
        """column.isna(), column.str.contains('x') and their kin."""
        call = node.func
        if not isinstance(call, ast.Attribute) or node.keywords:
            self._refuse(node, "no such function")
        if isinstance(call.value, ast.Attribute) and call.value.attr == "str":
            values = self._column(call.value.value)
            if call.attr not in TEXT_TESTS or len(node.args) != 1 or not _is_text(values):
                self._refuse(node, f"of text columns: .str.{', .str.'.join(TEXT_TESTS)}, one 'x'")
            word = self._constant(node.args[0])
            if not isinstance(word, str):
                self._refuse(node, "'text' is needed in the brackets")
            text = values.fillna("").astype("object").astype(str)
            tests = {"contains": lambda v: word in v, "startswith": lambda v: v.startswith(word),
                     "endswith": lambda v: v.endswith(word)}  # fmt: skip
            return text.map(tests[call.attr]).astype(bool)
        values = self._column(call.value)
        if call.attr == "isin" and len(node.args) == 1:
            return self._is_in(values, self._list(node.args[0]), node)
        if call.attr not in ("isna", "notna", "isnull", "notnull") or node.args:
            self._refuse(node, "no such test of a column")
        empty = values.isna() | (values == "").fillna(True) if _is_text(values) else values.isna()
        return empty if call.attr in ("isna", "isnull") else ~empty

    def _column(self, node: ast.expr) -> pd.Series[Any]:
        if not isinstance(node, ast.Name):
            self._refuse(node, "a column is needed before the dot")
        return self.values(node.id)

    def _value(self, node: ast.expr) -> Any:
        """A column, a literal, or arithmetic of numbers."""
        if isinstance(node, ast.Name):
            return self.values(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            left, right = self._value(node.left), self._value(node.right)
            if _is_text(left) or _is_text(right):
                self._refuse(node, "arithmetic is of numbers")
            try:
                return ARITHMETIC[type(node.op)](left, right)
            except (ZeroDivisionError, OverflowError) as error:
                self._refuse(node, str(error))
        return self._constant(node)

    def _constant(self, node: ast.expr) -> Any:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._constant(node.operand)
            if not isinstance(value, str):
                return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            return float(node.value) if isinstance(node.value, int) else node.value
        raise self._error(node, "a column, a number or 'text' is needed here")

    def _list(self, node: ast.expr) -> list[Any]:
        if not isinstance(node, ast.List | ast.Tuple | ast.Set):
            self._refuse(node, "a list is needed: [64, 128] or ['a', 'b']")
        return [self._constant(each) for each in node.elts]

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        raise self._error(node, why)

    def _error(self, node: ast.AST, why: str) -> AnalysisError:
        where = ast.unparse(node)
        return AnalysisError(f"--filter {self.text!r:.200}: {where!r:.80}: {why}; {ALLOWED}")


def _is_text(value: Any) -> bool:
    if isinstance(value, pd.Series):
        return not pd.api.types.is_numeric_dtype(value)
    return isinstance(value, str)


def _name(value: Any) -> str:
    return str(value.name) if isinstance(value, pd.Series) else repr(value)[:60]
