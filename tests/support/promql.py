"""
As much of Prometheus's expressions as the alerts of docs/alerts.yml need.

Rates are extrapolated as Prometheus does it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

from attrs import frozen

from .samples import Labels, Samples, Selector, Vector, Window

#: What an expression gives at one moment: one number, or one for each series.
Value: TypeAlias = float | Vector

#: What finds it out.
Evaluator: TypeAlias = Callable[[Samples, float], Value]

#: The labels by which two sides are matched; ``None`` for all of them.
On: TypeAlias = tuple[str, ...] | None


def _increase(window: Window, begin: float, end: float) -> float:
    """
    Give by how much a counter rose, extrapolated to the whole while.
    """
    values = [value for _, value in window]
    rose = values[-1] - values[0]
    rose += sum(a for a, b in pairwise(values) if b < a)
    first, last = window[0][0], window[-1][0]
    sampled = last - first
    between = sampled / (len(window) - 1)
    before, after = first - begin, end - last
    if rose > 0:
        # It cannot have been below 0.
        before = min(before, sampled * values[0] / rose)
    covered = sampled
    covered += before if before < 1.1 * between else between / 2
    covered += after if after < 1.1 * between else between / 2
    return rose * covered / sampled


#: Functions of a while: how many samples they need, and what they give.
_OVER_TIME: dict[str, tuple[int, Callable[[Window, float, float], float]]] = {
    "increase": (2, _increase),
    "rate": (2, lambda window, b, e: _increase(window, b, e) / (e - b)),
    "max_over_time": (1, lambda window, b, e: max(value for _, value in window)),
}

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
}

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else float("nan"),
}

_SECONDS = {"s": 1, "m": 60, "h": 3600}

_TOKEN = re.compile(
    r"\s*(?:(?P<duration>\[\d+[smh]\])|(?P<number>\d+(?:\.\d+)?)"
    r'|(?P<name>[a-zA-Z_]\w*)|(?P<text>"[^"]*")|(?P<sign>==|=~|[=<>+*/(){},]))'
)


def seconds(text: str) -> float:
    """
    Read a duration, such as ``5m``.
    """
    return float(text[:-1]) * _SECONDS[text[-1]]


@frozen
class Expression:
    """
    A PromQL expression, of the kinds that the alerts use.

    :ivar selectors: all there are in it.
    """

    _evaluate: Evaluator
    selectors: tuple[Selector, ...]

    def at(self, samples: Samples, at: float) -> Vector:
        """
        Give what it finds at that moment.
        """
        return _vector(self._evaluate(samples, at))


def parse(text: str) -> Expression:
    """
    Read an expression.

    :raises ValueError: when it is none, or not of these kinds.
    """
    parser = _Parser(text)
    evaluate = parser.expression()
    parser.end()
    return Expression(evaluate, tuple(parser.selectors))


class _Parser:
    """
    Reads one expression, from left to right; what binds least is read first.
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        place, text = 0, text.strip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None or found.lastgroup is None:
                raise ValueError(f"not understood: {text[place:]!r}")
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()
        self.selectors: list[Selector] = []

    def _next(self) -> str:
        return self._tokens[0][1] if self._tokens else ""

    def _take(self, *wanted: str) -> str:
        token = self._next()
        if wanted and token not in wanted:
            raise ValueError(f"{token!r} instead of one of {wanted}")
        self._tokens.pop(0)
        return token

    def end(self) -> None:
        """
        See that nothing is left.
        """
        if self._tokens:
            raise ValueError(f"left over: {self._next()!r}")

    def expression(self) -> Evaluator:
        """
        Read as much as is one expression.
        """
        left = self._comparison()
        while self._next() in ("and", "unless"):
            wanted = self._take() == "and"
            on = self._on()
            left = _filter(wanted, left, self._comparison(), on)
        return left

    def _comparison(self) -> Evaluator:
        left = self._sum()
        while self._next() in _COMPARISONS:
            holds = _COMPARISONS[self._take()]
            on = self._on()
            left = _comparison(holds, left, self._sum(), on)
        return left

    def _sum(self) -> Evaluator:
        left = self._product()
        while self._next() == "+":
            compute = _ARITHMETIC[self._take()]
            on = self._on()
            left = _arithmetic(compute, left, self._product(), on)
        return left

    def _product(self) -> Evaluator:
        left = self._one()
        while self._next() in ("*", "/"):
            compute = _ARITHMETIC[self._take()]
            on = self._on()
            left = _arithmetic(compute, left, self._one(), on)
        return left

    def _on(self) -> On:
        if self._next() != "on":
            return None
        self._take()
        return self._names()

    def _names(self) -> tuple[str, ...]:
        self._take("(")
        names = [self._take()]
        while self._take(",", ")") == ",":
            names.append(self._take())
        return tuple(names)

    def _one(self) -> Evaluator:
        kind = self._tokens[0][0] if self._tokens else ""
        token = self._take()
        if token == "(":
            inner = self.expression()
            self._take(")")
            return inner
        if kind == "number":
            return lambda samples, at: float(token)
        if kind != "name":
            raise ValueError(f"{token!r} begins nothing")
        if token in _AGGREGATES:
            return self._aggregate(token)
        if token in _OVER_TIME:
            self._take("(")
            selector = self._selector(self._take())
            self._take(")")
            return _over_time(*_OVER_TIME[token], selector)
        return self._selector(token).instant

    def _aggregate(self, name: str) -> Evaluator:
        self._take("by")
        names = self._names()
        self._take("(")
        inner = self.expression()
        self._take(")")
        return _aggregate(_AGGREGATES[name], names, inner)

    def _selector(self, name: str) -> Selector:
        matchers = []
        if self._next() == "{":
            while self._take("{", ",", "}") != "}":
                label, how = self._take(), self._take("=", "=~")
                matchers.append((label, how, self._take().strip('"')))
        duration = 0.0
        if self._tokens and self._tokens[0][0] == "duration":
            duration = seconds(self._take()[1:-1])
        selector = Selector(name, tuple(matchers), duration)
        self.selectors.append(selector)
        return selector


# What the parts of an expression come to.


def _vector(value: Value) -> Vector:
    assert isinstance(value, dict), "a number where there should be series"
    return value


def _kept(labels: Labels, names: On) -> Labels:
    if names is None:
        return labels
    return tuple(pair for pair in labels if pair[0] in names)


def _pairs(
    left: Vector, right: Vector, on: On
) -> Iterator[tuple[Labels, float, float]]:
    """
    Give what is on both sides; one to one, as without ``group_left``.
    """
    matched = {_kept(labels, on): value for labels, value in right.items()}
    keys = [_kept(labels, on) for labels in left]
    if len(matched) != len(right) or len(set(keys)) != len(keys):
        raise ValueError("several series match one")
    for (labels, value), key in zip(left.items(), keys, strict=True):
        if key in matched:
            yield labels, value, matched[key]


def _comparison(
    holds: Callable[[float, float], bool], left: Evaluator, right: Evaluator, on: On
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        one, other = _vector(left(samples, at)), right(samples, at)
        if isinstance(other, dict):
            return {labels: a for labels, a, b in _pairs(one, other, on) if holds(a, b)}
        return {labels: a for labels, a in one.items() if holds(a, other)}

    return evaluate


def _arithmetic(
    compute: Callable[[float, float], float], left: Evaluator, right: Evaluator, on: On
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        one, other = left(samples, at), _vector(right(samples, at))
        if isinstance(one, dict):
            return {
                _kept(labels, on): compute(a, b)
                for labels, a, b in _pairs(one, other, on)
            }
        return {labels: compute(one, b) for labels, b in other.items()}

    return evaluate


def _filter(wanted: bool, left: Evaluator, right: Evaluator, on: On) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        there = {_kept(labels, on) for labels in _vector(right(samples, at))}
        return {
            labels: value
            for labels, value in _vector(left(samples, at)).items()
            if (_kept(labels, on) in there) == wanted
        }

    return evaluate


def _aggregate(
    combine: Callable[[list[float]], float], names: tuple[str, ...], inner: Evaluator
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        groups: dict[Labels, list[float]] = {}
        for labels, value in _vector(inner(samples, at)).items():
            groups.setdefault(_kept(labels, names), []).append(value)
        return {labels: float(combine(values)) for labels, values in groups.items()}

    return evaluate


def _over_time(
    least: int, compute: Callable[[Window, float, float], float], selector: Selector
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        return {
            labels: compute(window, at - selector.seconds, at)
            for labels, window in selector.over(samples, at)
            if len(window) >= least
        }

    return evaluate
