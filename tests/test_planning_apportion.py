"""
The apportionment: how many items each member gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.apportion import apportion

WEIGHTS = st.one_of(
    st.integers(1, 5),
    st.sampled_from([0.1, 0.3, 0.5, 1.5, 7, 100, 1_000_000_000, 1e-9]),
    st.floats(0.01, 100),
)


def even(counts: Mapping[str, int], weights: Mapping[str, float]) -> bool:
    """
    Whether no item given from one member to another would bring them closer,
    by the definition in the module.
    """
    return all(
        (2 * counts[i] - 1) * Fraction(weights[j])
        <= (2 * counts[j] + 1) * Fraction(weights[i])
        for i in counts
        for j in counts
    )


def divisions(names: list[str], items: int) -> Iterator[dict[str, int]]:
    """
    Give every way to divide items among members.
    """
    places = range(items + len(names) - 1)
    for bars in combinations(places, len(names) - 1):
        edges = [-1, *bars, len(places)]
        yield {n: edges[i + 1] - edges[i] - 1 for i, n in enumerate(names)}


def given_up(held: Mapping[str, int], counts: Mapping[str, int]) -> int:
    """
    Give how many items have to leave their members.
    """
    return sum(max(0, held.get(name, 0) - n) for name, n in counts.items())


def members(
    weights: st.SearchStrategy[float], most: int
) -> st.SearchStrategy[dict[str, float]]:
    """
    Give some members and their weights.
    """
    return st.dictionaries(
        st.sampled_from([f"m{n}" for n in range(most)]), weights, min_size=1
    )


class ApportionTests(SynchronousTestCase):
    """
    Examples worked out by hand.
    """

    def test_equal_weights(self) -> None:
        """
        What is left over after equal shares goes by member id.
        """
        self.assertEqual(
            apportion({"b": 1, "a": 1, "c": 1}, 100, {}), {"a": 34, "b": 33, "c": 33}
        )

    def test_left_over_stays(self) -> None:
        """
        What is left over stays with those that have it.
        """
        self.assertEqual(
            apportion({"a": 1, "b": 1, "c": 1}, 100, {"c": 34, "b": 40}),
            {"a": 33, "b": 34, "c": 33},
        )

    def test_weights(self) -> None:
        """
        Items go by weight.
        """
        self.assertEqual(
            apportion({"a": 1, "b": 2, "c": 0.5}, 70, {}), {"a": 20, "b": 40, "c": 10}
        )

    def test_huge_difference(self) -> None:
        """
        A member whose share is far below half an item gets none.
        """
        self.assertEqual(apportion({"a": 1, "b": 1e9}, 1000, {}), {"a": 0, "b": 1000})

    def test_no_items(self) -> None:
        """
        Of nothing everybody gets nothing.
        """
        self.assertEqual(apportion({"a": 1, "b": 2}, 0, {"a": 3}), {"a": 0, "b": 0})

    def test_fewer_items_than_members(self) -> None:
        """
        The first items go to the heaviest.
        """
        self.assertEqual(
            apportion({"a": 1, "b": 3, "c": 2}, 2, {}), {"a": 0, "b": 1, "c": 1}
        )


class PropertyTests(SynchronousTestCase):
    """
    What holds for all weights and counts.
    """

    @given(members(WEIGHTS, 12), st.integers(0, 300), st.data())
    def test_even_and_complete(
        self, weights: dict[str, float], items: int, data: st.DataObject
    ) -> None:
        """
        All items are given, and the counts are even by the definition,
        whatever is held.
        """
        held = data.draw(
            st.dictionaries(st.sampled_from(sorted(weights)), st.integers(0, 90))
        )
        counts = apportion(weights, items, held)

        self.assertEqual(sum(counts.values()), items)
        self.assertTrue(even(counts, weights))

    @given(members(WEIGHTS, 12), st.integers(0, 300))
    def test_within_one_item(self, weights: dict[str, float], items: int) -> None:
        """
        Items by weight differ between two members by at most the mean of what
        one item is to each: by one item or less from weight 1 on (G5).
        """
        counts = apportion(weights, items, {})
        for i, j in combinations(counts, 2):
            wi, wj = Fraction(weights[i]), Fraction(weights[j])
            apart = abs(counts[i] / wi - counts[j] / wj)

            self.assertLessEqual(apart, (1 / wi + 1 / wj) / 2)
            if wi >= 1 and wj >= 1:
                self.assertLessEqual(apart, 1)

    @given(members(st.sampled_from([1, 1, 2, 3, 0.5]), 4), st.integers(0, 9), st.data())
    def test_fewest_moves(
        self, weights: dict[str, float], items: int, data: st.DataObject
    ) -> None:
        """
        Of all even divisions, tried one by one, none lets the members keep
        more of what they have.
        """
        held = data.draw(
            st.dictionaries(st.sampled_from(sorted(weights)), st.integers(0, 9))
        )
        least = min(
            given_up(held, counts)
            for counts in divisions(sorted(weights), items)
            if even(counts, weights)
        )

        self.assertEqual(given_up(held, apportion(weights, items, held)), least)

    @given(members(st.just(1), 5), st.integers(0, 9), st.data())
    def test_fewest_moves_within_one_item(
        self, weights: dict[str, float], items: int, data: st.DataObject
    ) -> None:
        """
        Among equal members no division at all within one item of each other
        takes fewer moves (G5).
        """
        held = data.draw(
            st.dictionaries(st.sampled_from(sorted(weights)), st.integers(0, 9))
        )
        least = min(
            given_up(held, counts)
            for counts in divisions(sorted(weights), items)
            if max(counts.values()) - min(counts.values()) <= 1
        )

        self.assertEqual(given_up(held, apportion(weights, items, held)), least)

    @given(members(WEIGHTS, 12), st.integers(0, 300))
    def test_calm(self, weights: dict[str, float], items: int) -> None:
        """
        What is even already stays as it is.
        """
        counts = apportion(weights, items, {})

        self.assertEqual(apportion(weights, items, counts), counts)

    @given(members(WEIGHTS, 12), st.integers(0, 300), st.data())
    def test_leaving_only_adds(
        self, weights: dict[str, float], items: int, data: st.DataObject
    ) -> None:
        """
        When a member goes, no other has to give anything up.
        """
        assume(len(weights) > 1)
        counts = apportion(weights, items, {})
        gone = data.draw(st.sampled_from(sorted(weights)))
        rest = {name: w for name, w in weights.items() if name != gone}

        self.assertEqual(given_up(counts, apportion(rest, items, counts)), 0)

    @given(members(WEIGHTS, 12), st.integers(0, 300), WEIGHTS)
    def test_joining_takes_no_more_than_its_share(
        self, weights: dict[str, float], items: int, weight: float
    ) -> None:
        """
        When a member comes, exactly its items are given up by the others.
        """
        before = apportion(weights, items, {})
        after = apportion({**weights, "new": weight}, items, before)

        self.assertEqual(given_up(before, after), after["new"])

    @given(members(WEIGHTS, 12), st.integers(0, 300))
    def test_one_more_item(self, weights: dict[str, float], items: int) -> None:
        """
        One more item makes nobody give one up.
        """
        before = apportion(weights, items, {})

        self.assertEqual(given_up(before, apportion(weights, items + 1, before)), 0)

    @given(members(WEIGHTS, 12), st.integers(0, 300), st.data())
    def test_order_makes_no_difference(
        self, weights: dict[str, float], items: int, data: st.DataObject
    ) -> None:
        """
        The order in which members are told makes no difference.
        """
        mixed = dict(data.draw(st.permutations(list(weights.items()))))

        self.assertEqual(apportion(mixed, items, {}), apportion(weights, items, {}))
