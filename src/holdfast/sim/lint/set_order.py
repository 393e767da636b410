"""Finds code whose result depends on the order of a set, which changes with the process's hash seed.

Testing membership is fine, and so is any use whose result is the same in every order (``sorted``, ``len``,
``any``, another set). Any other iteration over a set is reported. What is a set is inferred within one
module, from literals, ``set(...)``, operators, and the annotations of names, attributes and results.
"""

import ast
from collections.abc import Iterator
from typing import Final

INSTEAD: Final = "sorted(...), or a dict instead of the set, whose order is that of insertion"

SET_TYPES: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"})
MAPPING_TYPES: Final = frozenset({"dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"})
SEQUENCE_TYPES: Final = frozenset(
    {"list", "tuple", "Sequence", "Iterable", "Iterator", "deque", "Collection"}
)

MAKES_A_SET: Final = frozenset({"set", "frozenset"})
SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
ANY_ORDER: Final = frozenset({"sorted", "set", "frozenset", "any", "all", "sum", "len", "min", "max"})
"""Functions whose result does not depend on the order of their input."""
TIES_BY_ORDER: Final = frozenset({"sorted", "min", "max"})
"""The functions of ``ANY_ORDER`` that, given a key, break ties by the order of their input."""
WALKS: Final = frozenset(
    {"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "dict", "next", "reversed"}
)
SHOWS: Final = frozenset({"str", "repr", "format"})
"""Functions that turn a value into text."""
WALKING_METHODS: Final = frozenset({"extend", "join", "fromkeys", "extendleft", "from_iterable"})

_SET: Final = ast.Name("set")


def set_walks(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of *tree* where the order of a set matters."""
    finder = _Finder(_declared(tree))
    finder.visit(tree)
    yield from sorted(finder.lines)


def _declared(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the annotations of attributes and results, by name, from anywhere in the module."""
    declared: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name) | ast.Name(id=name), annotation=annotation):
                declared["." + name] = annotation
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _is_plainly_a_set(value):
                declared["." + name] = _SET
            case ast.FunctionDef(name=name, returns=ast.expr() as returns):
                declared[name + "()"] = returns
                if any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list):
                    declared["." + name] = returns
    return declared


def _is_plainly_a_set(value: ast.expr) -> bool:
    match value:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in MAKES_A_SET
    return False


class _Finder(ast.NodeVisitor):
    def __init__(self, declared: dict[str, ast.expr]) -> None:
        self.lines: set[int] = set()
        self._declared = declared
        self._scopes: list[dict[str, ast.expr | None]] = [{}]

    # --- the type of each name, scope by scope

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self._scopes.append({argument.arg: argument.annotation for argument in arguments})
        self.generic_visit(node)
        self._scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_Lambda = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._scopes[-1][node.target.id] = node.annotation
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._scopes[-1][target.id] = self._type(node.value)
            elif isinstance(target, ast.Tuple | ast.List):
                self._walk(node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._scopes[-1][node.target.id] = self._type(node.value)
        self.generic_visit(node)

    # --- where values are iterated

    def visit_For(self, node: ast.For) -> None:
        self._walk(node.iter)
        self._bind(node.target, node.iter)
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> None:
        self._visit_comprehension(node, is_ordered=True)

    visit_DictComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._visit_comprehension(node, is_ordered=False)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.SetComp, *, is_ordered: bool
    ) -> None:
        self._scopes.append({})
        for generator in node.generators:
            if is_ordered:
                self._walk(generator.iter)
            self._bind(generator.target, generator.iter)
        self.generic_visit(node)
        self._scopes.pop()

    def visit_Starred(self, node: ast.Starred) -> None:
        self._walk(node.value)
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._walk(node.value)
        self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        self._walk(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        has_key = any(keyword.arg == "key" for keyword in node.keywords)
        match node.func:
            case ast.Name(id=name) if has_key and name in TIES_BY_ORDER:
                self._walk_all(node.args)
            case ast.Name(id=name) if name in ANY_ORDER:
                # Its input may come in any order, also through one generator.
                for argument in node.args:
                    if isinstance(argument, ast.GeneratorExp):
                        self._visit_comprehension(argument, is_ordered=False)
                    else:
                        self.visit(argument)
                for keyword in node.keywords:
                    self.visit(keyword.value)
                return
            case ast.Name(id=name) if name in WALKS | SHOWS:
                self._walk_all(node.args)
            case ast.Attribute(attr=name) if name in WALKING_METHODS:
                self._walk_all(node.args)
            case ast.Attribute(value=value, attr="pop") if not node.args and self._is_set(value):
                self.lines.add(node.lineno)
        self.generic_visit(node)

    def _walk_all(self, arguments: list[ast.expr]) -> None:
        for argument in arguments:
            self._walk(argument)

    def _walk(self, walked: ast.expr) -> None:
        if self._is_set(walked):
            self.lines.add(walked.lineno)

    def _bind(self, target: ast.expr, walked: ast.expr) -> None:
        """Remember the types of a loop's variables."""
        match target, walked:
            case ast.Name(id=name), ast.Call(func=ast.Attribute(value=value, attr="values")):
                self._scopes[-1][name] = _item(self._type(value), MAPPING_TYPES, 1)
            case (
                ast.Tuple(elts=[_, ast.Name(id=name)]),
                ast.Call(func=ast.Attribute(value=value, attr="items")),
            ):
                self._scopes[-1][name] = _item(self._type(value), MAPPING_TYPES, 1)
            case ast.Name(id=name), _:
                self._scopes[-1][name] = _item(self._type(walked), SEQUENCE_TYPES, 0)

    # --- types, as annotations

    def _is_set(self, value: ast.expr) -> bool:
        return _is_one_of(self._type(value), SET_TYPES)

    def _type(self, value: ast.expr) -> ast.expr | None:
        match value:
            case ast.Set() | ast.SetComp():
                return _SET
            case ast.Name(id=name):
                return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)
            case ast.Attribute(attr=name):
                return self._declared.get("." + name)
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, SET_OPERATORS):
                return _SET if any(self._is_set(each) or _is_keys(each) for each in (left, right)) else None
            case ast.IfExp(body=body, orelse=other):
                return self._type(body) or self._type(other)
            case ast.BoolOp(values=values):
                return next((found for each in values if (found := self._type(each))), None)
            case ast.NamedExpr(value=inner) | ast.Starred(value=inner):
                return self._type(inner)
            case ast.Subscript(value=container):
                kind = self._type(container)
                return _item(kind, MAPPING_TYPES, 1) or _item(kind, SEQUENCE_TYPES, 0)
            case ast.Call(func=function):
                return self._type_of_result(function)
        return None

    def _type_of_result(self, function: ast.expr) -> ast.expr | None:
        match function:
            case ast.Name(id=name):
                return _SET if name in MAKES_A_SET else self._declared.get(name + "()")
            case ast.Attribute(value=value, attr=name):
                if name in SET_METHODS and self._is_set(value):
                    return _SET
                if name in ("get", "pop", "setdefault"):
                    return _item(self._type(value), MAPPING_TYPES, 1)
                return self._declared.get(name + "()")
        return None


def _is_keys(value: ast.expr) -> bool:
    """Whether *value* is ``a.keys()``.

    ``a.keys() - b.keys()`` is a set, although ``a.keys()`` alone is ordered.
    """
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "keys"


def _is_one_of(annotation: ast.expr | None, names: frozenset[str]) -> bool:
    """Whether the annotation names one of *names*, alone or in a union."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
        case ast.Subscript(value=ast.Name(id="Final" | "ClassVar" | "Optional"), slice=inner):
            return _is_one_of(inner, names)
        case ast.Subscript(value=outer):
            return _is_one_of(outer, names)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_one_of(left, names) or _is_one_of(right, names)
    return False


def _item(container: ast.expr | None, kinds: frozenset[str], index: int) -> ast.expr | None:
    """Return the annotation of the items of a container of one of *kinds*."""
    match container:
        case ast.Subscript(value=outer, slice=inner) if _is_one_of(outer, kinds):
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return items[index] if index < len(items) else None
        case ast.Subscript(value=ast.Name(id="Final" | "ClassVar" | "Optional"), slice=inner):
            return _item(inner, kinds, index)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _item(left, kinds, index) or _item(right, kinds, index)
    return None
