"""
As much of Prometheus as the alerts of docs/alerts.yml need: samples over time,
and the expressions that are asked of them.

Rates are extrapolated, and stale series vanish, as Prometheus does it.
"""

from __future__ import annotations

import itertools
import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import field, frozen
from prometheus_client import Metric

#: So many seconds after the last sample there is none any more.
LOOK_BACK = 300.0

#: Labels, sorted by name, without the metric's name.
Labels: TypeAlias = tuple[tuple[str, str], ...]

#: What an expression gives at one moment.
Vector: TypeAlias = dict[Labels, float]

Value: TypeAlias = float | Vector


#: The samples of one series, oldest first; ``None`` says that it has ended.
Series: TypeAlias = list[tuple[float, float | None]]


class Samples:
    """
    Samples over time, of targets that are scraped.
    """

    def __init__(self) -> None:
        self._series: dict[str, dict[Labels, Series]] = {}
        self._last: dict[str, set[tuple[str, Labels]]] = {}

    def scrape(
        self, at: float, instance: str, families: Iterable[Metric] | None
    ) -> None:
        """
        Take what a target tells; ``None`` when it does not answer.
        """
        found = {("up", _labels({}, instance)): float(families is not None)}
        for family in families or ():
            for sample in family.samples:
                found[sample.name, _labels(sample.labels, instance)] = sample.value
        self._take(at, instance, found)

    def forget(self, at: float, instance: str) -> None:
        """
        Scrape a target no more.
        """
        self._take(at, instance, {})

    def _take(
        self, at: float, instance: str, found: Mapping[tuple[str, Labels], float]
    ) -> None:
        for name, labels in self._last.get(instance, set()) - found.keys():
            self._series[name][labels].append((at, None))
        for (name, labels), value in found.items():
            series = self._series.setdefault(name, {})
            series.setdefault(labels, []).append((at, value))
        self._last[instance] = set(found)

    def named(self, name: str) -> Mapping[Labels, Series]:
        """
        Give the series of a metric.
        """
        return self._series.get(name, {})


def _labels(labels: Mapping[str, str], instance: str) -> Labels:
    everything = {**labels, "instance": instance, "job": "voltha_coord"}
    return tuple(sorted(everything.items()))


def _when(sample: tuple[float, float | None]) -> float:
    return sample[0]


@frozen
class Selector:
    """
    A choice of series, at one moment or over a while.
    """

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    seconds: float = 0.0

    def _chosen(self, labels: Labels) -> bool:
        known = dict(labels)
        for name, how, wanted in self.matchers:
            value = known.get(name, "")
            matched = (
                re.fullmatch(wanted, value) is not None
                if "~" in how
                else value == wanted
            )
            if matched == how.startswith("!"):
                return False
        return True

    def instant(self, samples: Samples, at: float) -> Vector:
        """
        Give the last values.
        """
        vector: Vector = {}
        for labels, series in samples.named(self.name).items():
            last = bisect_right(series, at, key=_when) - 1
            if last >= 0 and self._chosen(labels):
                when, value = series[last]
                if value is not None and when > at - LOOK_BACK:
                    vector[labels] = value
        return vector

    def over(
        self, samples: Samples, at: float
    ) -> Iterator[tuple[Labels, list[tuple[float, float]]]]:
        """
        Give the values of the while that ends now.
        """
        for labels, series in samples.named(self.name).items():
            begin = bisect_left(series, at - self.seconds, key=_when)
            end = bisect_right(series, at, key=_when)
            window = [(w, value) for w, value in series[begin:end] if value is not None]
            if window and self._chosen(labels):
                yield labels, window


def _increase(window: list[tuple[float, float]], begin: float, end: float) -> float:
    """
    Give by how much a counter rose, extrapolated to the whole while.
    """
    values = [value for _, value in window]
    rose = values[-1] - values[0]
    rose += sum(a for a, b in itertools.pairwise(values) if b < a)
    first, last = window[0][0], window[-1][0]
    sampled = last - first
    between = sampled / (len(window) - 1)
    before, after = first - begin, end - last
    if rose > 0 and values[0] >= 0:
        before = min(before, sampled * values[0] / rose)
    covered = sampled
    covered += before if before < 1.1 * between else between / 2
    covered += after if after < 1.1 * between else between / 2
    return rose * covered / sampled


Window: TypeAlias = Callable[[list[tuple[float, float]], float, float], float]

_OVER_TIME: dict[str, tuple[int, Window]] = {
    "increase": (2, _increase),
    "rate": (2, lambda window, b, e: _increase(window, b, e) / (e - b)),
    "max_over_time": (1, lambda window, b, e: max(v for _, v in window)),
    "min_over_time": (1, lambda window, b, e: min(v for _, v in window)),
}

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": len,
}

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else float("nan"),
}

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_TOKEN = re.compile(
    r"\s*(?:(?P<duration>\[\d+[smhd]\])|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<name>[a-zA-Z_:][\w:]*)"
    r'|(?P<text>"[^"]*")|(?P<sign>==|!=|>=|<=|=~|!~|[=<>+\-*/(){},]))'
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

    _evaluate: Callable[[Samples, float], Value]
    selectors: tuple[Selector, ...] = field(factory=tuple)

    def at(self, samples: Samples, at: float) -> Vector:
        """
        Give what it finds at that moment.
        """
        value = self._evaluate(samples, at)
        return value if isinstance(value, dict) else {(): value}


Evaluator: TypeAlias = Callable[[Samples, float], Value]


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
    Reads one expression, from left to right.
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
        Read what binds least first.
        """
        left = self._both()
        while self._next() == "or":
            self._take()
            left = _set_operation("or", left, self._both())
        return left

    def _both(self) -> Evaluator:
        left = self._comparison()
        while self._next() in ("and", "unless"):
            sign = self._take()
            on = self._on()
            left = _set_operation(sign, left, self._comparison(), on)
        return left

    def _comparison(self) -> Evaluator:
        left = self._sum()
        while self._next() in _COMPARISONS:
            sign = self._take()
            on = self._on()
            left = _comparison(_COMPARISONS[sign], left, self._sum(), on)
        return left

    def _sum(self) -> Evaluator:
        left = self._product()
        while self._next() in ("+", "-"):
            sign = self._take()
            on = self._on()
            left = _arithmetic(_ARITHMETIC[sign], left, self._product(), on)
        return left

    def _product(self) -> Evaluator:
        left = self._one()
        while self._next() in ("*", "/"):
            sign = self._take()
            on = self._on()
            left = _arithmetic(_ARITHMETIC[sign], left, self._one(), on)
        return left

    def _on(self) -> tuple[str, ...] | None:
        if self._next() != "on":
            return None
        self._take()
        return self._names()

    def _names(self) -> tuple[str, ...]:
        self._take("(")
        names = []
        while self._next() != ")":
            names.append(self._take())
            if self._next() == ",":
                self._take()
        self._take(")")
        return tuple(names)

    def _one(self) -> Evaluator:
        if self._next() == "(":
            self._take()
            inner = self.expression()
            self._take(")")
            return inner
        kind = self._tokens[0][0] if self._tokens else ""
        if kind == "number":
            number = float(self._take())
            return lambda samples, at: number
        if kind != "name":
            raise ValueError(f"{self._next()!r} begins nothing")
        name = self._take()
        if name in _AGGREGATES:
            return self._aggregate(name)
        if name in _OVER_TIME:
            return self._over_time(name)
        return self._selector(name).instant

    def _aggregate(self, name: str) -> Evaluator:
        names: tuple[str, ...] = ()
        if self._next() == "by":
            self._take()
            names = self._names()
        self._take("(")
        inner = self.expression()
        self._take(")")
        return _aggregate(_AGGREGATES[name], names, inner)

    def _over_time(self, name: str) -> Evaluator:
        self._take("(")
        selector = self._selector(self._take())
        self._take(")")
        if not selector.seconds:
            raise ValueError(f"{name} wants a duration")
        return _over_time(*_OVER_TIME[name], selector)

    def _selector(self, name: str) -> Selector:
        matchers = []
        if self._next() == "{":
            self._take()
            while self._next() != "}":
                label = self._take()
                how = self._take("=", "!=", "=~", "!~")
                matchers.append((label, how, self._take()[1:-1]))
                if self._next() == ",":
                    self._take()
            self._take("}")
        duration = 0.0
        if self._tokens and self._tokens[0][0] == "duration":
            duration = seconds(self._take()[1:-1])
        selector = Selector(name, tuple(matchers), duration)
        self.selectors.append(selector)
        return selector


def _kept(labels: Labels, names: tuple[str, ...] | None) -> Labels:
    if names is None:
        return labels
    return tuple(pair for pair in labels if pair[0] in names)


def _pairs(
    left: Vector, right: Vector, on: tuple[str, ...] | None
) -> Iterator[tuple[Labels, float, float]]:
    by_label = {_kept(labels, on): value for labels, value in right.items()}
    if len(by_label) != len(right):
        raise ValueError("many to many")
    for labels, value in left.items():
        key = _kept(labels, on)
        if key in by_label:
            yield labels, value, by_label[key]


def _comparison(
    holds: Callable[[float, float], bool],
    left: Evaluator,
    right: Evaluator,
    on: tuple[str, ...] | None,
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        one, other = left(samples, at), right(samples, at)
        assert isinstance(one, dict), "a number alone is no alert"
        if isinstance(other, dict):
            return {labels: a for labels, a, b in _pairs(one, other, on) if holds(a, b)}
        return {labels: a for labels, a in one.items() if holds(a, other)}

    return evaluate


def _arithmetic(
    compute: Callable[[float, float], float],
    left: Evaluator,
    right: Evaluator,
    on: tuple[str, ...] | None,
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        one, other = left(samples, at), right(samples, at)
        if isinstance(one, dict) and isinstance(other, dict):
            return {
                _kept(labels, on): compute(a, b)
                for labels, a, b in _pairs(one, other, on)
            }
        if isinstance(one, dict):
            assert not isinstance(other, dict)
            return {labels: compute(a, other) for labels, a in one.items()}
        if isinstance(other, dict):
            return {labels: compute(one, b) for labels, b in other.items()}
        return compute(one, other)

    return evaluate


def _set_operation(
    sign: str,
    left: Evaluator,
    right: Evaluator,
    on: tuple[str, ...] | None = None,
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        one, other = left(samples, at), right(samples, at)
        assert isinstance(one, dict)
        assert isinstance(other, dict)
        there = {_kept(labels, on) for labels in other}
        if sign == "or":
            return {**other, **one}
        wanted = sign == "and"
        return {
            labels: value
            for labels, value in one.items()
            if (_kept(labels, on) in there) == wanted
        }

    return evaluate


def _aggregate(
    combine: Callable[[list[float]], float],
    names: tuple[str, ...],
    inner: Evaluator,
) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        groups: dict[Labels, list[float]] = {}
        found = inner(samples, at)
        assert isinstance(found, dict)
        for labels, value in found.items():
            groups.setdefault(_kept(labels, names), []).append(value)
        return {labels: float(combine(values)) for labels, values in groups.items()}

    return evaluate


def _over_time(least: int, compute: Window, selector: Selector) -> Evaluator:
    def evaluate(samples: Samples, at: float) -> Value:
        return {
            labels: compute(window, at - selector.seconds, at)
            for labels, window in selector.over(samples, at)
            if len(window) >= least
        }

    return evaluate
