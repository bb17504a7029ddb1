"""
The arithmetic of planning by resources.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.deployment import NODE_STATES, Node
from voltha_coord.planning.resources import Ledger
from voltha_coord.planning.shares import Gpu, GpuShare, Resources, Share, brief


def node(
    name: str,
    cpu: float,
    memory: float,
    state: str = "online",
    gpus: tuple[Gpu, ...] = (),
    **fields: object,
) -> Node:
    """
    Give a node with limits of 90.
    """
    resources = Resources(cpu, 90, memory, 90, gpus=gpus, **fields)  # type: ignore[arg-type]
    return Node(name, state, resources=resources)


def ledger(*nodes: Node) -> Ledger:
    """
    Give the ledger of some nodes.
    """
    return Ledger({one.id: one for one in nodes})


def used(book: Ledger, name: str) -> tuple[float, float]:
    """
    Give the CPU and memory that a node uses by now.
    """
    resources = book.resources[name]
    return resources.cpu, resources.memory


class LedgerTests(SynchronousTestCase):
    """
    Two nodes: one with much memory in use, one with much CPU.
    """

    def setUp(self) -> None:
        """
        Open the ledger.
        """
        self.book = ledger(node("n1", 7, 35), node("n2", 85, 11))

    def test_as_given(self) -> None:
        """
        At first it holds what was given.
        """
        resources = self.book.resources

        self.assertEqual(resources["n1"], Resources(7, 90, 35, 90))
        self.assertEqual(resources["n2"], Resources(85, 90, 11, 90))

    def test_blocked(self) -> None:
        """
        Nodes in any other state than online are given nothing.
        """
        for state in NODE_STATES:
            book = ledger(node("n1", 7, 35, state), node("n2", 85, 11))
            blocked = state != "online"

            self.assertEqual(book.blocked, ("n1",) if blocked else ())
            self.assertEqual(book.has_room("n1", Share(1, 1)), not blocked)
            self.assertEqual(book.best(Share(1, 1)), "n2" if blocked else "n1")
            self.assertEqual(book.why_not("n1", Share(1, 1)), f"is {state}" * blocked)

    def test_blocked_in_order(self) -> None:
        """
        They are told in the order of their ids.
        """
        book = ledger(node("n2", 1, 1, "leave"), node("n1", 1, 1, "offline"))

        self.assertEqual(book.blocked, ("n1", "n2"))

    def test_throttling(self) -> None:
        """
        A node that is throttling is given nothing until it is no more.
        """
        share = Share(30, 5)
        self.assertTrue(self.book.has_room("n1", share))

        self.book.throttle("n1")
        self.assertFalse(self.book.has_room("n1", share))
        self.assertIsNone(self.book.best(share))
        self.assertEqual(self.book.why_not("n1", share), "is throttling")
        self.assertTrue(self.book.resources["n1"].throttling)

        self.book.throttle("n1", False)
        self.assertTrue(self.book.has_room("n1", share))
        self.assertEqual(self.book.best(share), "n1")

    def test_throttling_from_the_beginning(self) -> None:
        """
        So is one that says so itself.
        """
        book = ledger(node("n1", 1, 1, throttling=True))

        self.assertFalse(book.has_room("n1", Share(1, 1)))
        self.assertIsNone(book.best(Share(1, 1)))

    def test_error(self) -> None:
        """
        A node that cannot tell what it uses is given nothing.
        """
        book = ledger(node("n1", 1, 1, error="no /proc"), node("n2", 80, 80))

        self.assertFalse(book.has_room("n1", Share(1, 1)))
        self.assertEqual(book.best(Share(1, 1)), "n2")
        self.assertIn("no /proc", book.why_not("n1", Share(1, 1)))

    def test_room(self) -> None:
        """
        There is room below the limits, and not at them.
        """
        for share, fits in (
            (Share(30, 5), True),
            (Share(82.9, 54.9), True),
            (Share(83, 5), False),
            (Share(30, 55), False),
            (Share(84, 5), False),
            (Share(0, 0), True),
        ):
            self.assertEqual(self.book.has_room("n1", share), fits, share)
            self.assertEqual(self.book.best(share) == "n1", fits, share)
            self.assertEqual(self.book.why_not("n1", share) == "", fits, share)

    def test_why_not(self) -> None:
        """
        Why there is none is said with the numbers.
        """
        self.assertEqual(
            self.book.why_not("n2", Share(5, 1)), "cpu 85 and 5 more is not below 90"
        )
        self.assertEqual(
            self.book.why_not("n1", Share(5, 60)),
            "memory 35 and 60 more is not below 90",
        )

    def test_large_numbers(self) -> None:
        """
        Bytes are said as people read them.
        """
        book = Ledger({"n": Node("n", resources=Resources(1, 90, 2**20, 2**31))})

        self.assertEqual(
            book.why_not("n", Share(1, 900 * 2**30)),
            "memory 1M and 900G more is not below 2G",
        )
        self.assertEqual(brief(1023), "1023")
        self.assertEqual(brief(2**50), "1024T")
        self.assertEqual(brief(1e18), "909495T")

    def test_unknown_node(self) -> None:
        """
        A node that is not known has no room, and nothing is counted on it.
        """
        share = Share(1, 1)

        self.assertFalse(self.book.has_room("n9", share))
        self.assertEqual(self.book.why_not("n9", share), "is not known")
        before = self.book.resources
        self.book.add("n9", share)
        self.book.remove("n9", share)
        self.book.throttle("n9")
        self.assertEqual(self.book.resources, before)

    def test_best(self) -> None:
        """
        The best has the least CPU in use, whatever it has of memory.
        """
        book = ledger(node("n1", 27, 35), node("n2", 15, 11), node("n3", 0, 0))
        share = Share(35, 20)
        found = []
        for _ in range(3):
            best = book.best(share)
            assert best is not None
            found.append(best)
            book.add(best, Share(54.9, 0))

        self.assertEqual(found, ["n3", "n2", "n1"])

    def test_ties(self) -> None:
        """
        Among those with as much CPU the one with the least memory is best; then
        the one whose id comes first, in whatever order they are given.
        """
        one, two, three = node("n1", 5, 9), node("n2", 5, 3), node("n3", 5, 3)
        for nodes in ((one, two, three), (three, two, one)):
            book = ledger(*nodes)

            self.assertEqual(book.best(Share(1, 1)), "n2")
            self.assertEqual(book.best(Share(1, 1), excluding="n2"), "n3")

    def test_next_best(self) -> None:
        """
        Where the best has no room the next one is taken.
        """
        book = ledger(node("n1", 1, 80), node("n2", 50, 1))

        self.assertEqual(book.best(Share(1, 20)), "n2")

    def test_counted_on_a_blocked_node(self) -> None:
        """
        What is counted on a node that is given nothing leaves the others as they
        were, and it is given nothing still.
        """
        book = ledger(node("n1", 5, 5, "maintenance"), node("n2", 50, 50))
        book.add("n1", Share(1, 1))
        book.remove("n1", Share(3, 3))

        self.assertEqual(used(book, "n1"), (3, 3))
        self.assertEqual(book.best(Share(1, 1)), "n2")
        self.assertIsNone(book.best(Share(1, 1), excluding="n2"))

    def test_limits_of_their_own(self) -> None:
        """
        A node is measured by its own limits, be those of others lower.
        """
        one = Node("n1", resources=Resources(10, 50, 1, 90))
        two = Node("n2", resources=Resources(60, 400, 1, 90))
        for nodes in ((one, two), (two, one)):
            self.assertEqual(ledger(*nodes).best(Share(45, 1)), "n2")

    def test_refused_is_remembered_rightly(self) -> None:
        """
        That a share found no room says nothing of smaller ones, nor of those
        larger in one and smaller in the other, nor of later.
        """
        book = ledger(node("n1", 50, 10), node("n2", 10, 50))
        self.assertIsNone(book.best(Share(60, 60)))

        self.assertIsNone(book.best(Share(60, 60)))
        self.assertIsNone(book.best(Share(70, 60)))
        self.assertEqual(book.best(Share(70, 30)), "n2")
        self.assertEqual(book.best(Share(30, 70)), "n1")
        book.remove("n1", Share(40, 0))
        self.assertEqual(book.best(Share(60, 60)), "n1")

    def test_many_refused(self) -> None:
        """
        Of many shares that found no room the smallest are remembered, each for
        what it was.
        """
        book = ledger(node("n1", 50, 50))
        refused = [(60, 20), (45, 30), (50, 25), (40, 70), (45, 25), (20, 40), (41, 1)]
        for cpu, memory in refused:
            self.assertIsNone(book.best(Share(cpu, memory)), (cpu, memory))

        for cpu in range(70):
            for memory in range(70):
                found = book.best(Share(cpu, memory))
                fits = cpu < 40 and memory < 40
                self.assertEqual(found, "n1" if fits else None, (cpu, memory))

    def test_refused_elsewhere(self) -> None:
        """
        What found no room but where it is may have it there.
        """
        self.assertIsNone(self.book.best(Share(30, 5), excluding="n1"))

        self.assertEqual(self.book.best(Share(30, 5)), "n1")

    def test_add(self) -> None:
        """
        What is added is counted.
        """
        self.book.add("n1", Share(42, 33))

        self.assertEqual(used(self.book, "n1"), (49, 68))
        self.assertEqual(used(self.book, "n2"), (85, 11))
        self.assertFalse(self.book.has_room("n1", Share(1, 22)))

    def test_remove(self) -> None:
        """
        What is removed is counted, and nothing is used less than not at all.
        """
        book = ledger(node("n1", 53, 35))
        book.remove("n1", Share(13, 20))
        self.assertEqual(used(book, "n1"), (40, 15))

        book.remove("n1", Share(100, 100))
        self.assertEqual(used(book, "n1"), (0, 0))

    def test_move(self) -> None:
        """
        What is moved is on one instead of on the other.
        """
        self.book.move("n1", "n2", Share(4, 5))

        self.assertEqual(used(self.book, "n1"), (11, 40))
        self.assertEqual(used(self.book, "n2"), (81, 6))

    def test_overloaded(self) -> None:
        """
        A node has too much to do at its limit of either, or when it is
        throttling; one that does not tell what it uses has not.
        """
        for one, over in (
            (node("n", 89.9, 89.9), False),
            (node("n", 90, 1), True),
            (node("n", 1, 90), True),
            (node("n", 1, 1, throttling=True), True),
            (node("n", 95, 95, error="?"), False),
            (node("n", 95, 1, "maintenance"), True),
        ):
            self.assertEqual(ledger(one).overloaded("n"), over, one)

    def test_nothing_given_is_changed(self) -> None:
        """
        What is given stays as it is.
        """
        nodes = {"n1": node("n1", 7, 35, gpus=(Gpu(usage_limit=9, memory_limit=9),))}
        book = Ledger(nodes)
        book.add("n1", Share(1, 1, GpuShare(usage=1)))
        book.throttle("n1")

        self.assertEqual(
            nodes,
            {"n1": node("n1", 7, 35, gpus=(Gpu(usage_limit=9, memory_limit=9),))},
        )

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["n1", "n2", "n3"]),
                st.sampled_from(["add", "remove", "throttle", "best"]),
                st.integers(0, 60),
                st.integers(0, 60),
            ),
            max_size=30,
        )
    )
    def test_best_is_what_sorting_gives(
        self, steps: list[tuple[str, str, int, int]]
    ) -> None:
        """
        Whatever was done before, the best is the first of all that have room, in
        the order of what they use.
        """
        book = ledger(node("n1", 7, 35), node("n2", 20, 11), node("n3", 7, 10))
        for name, what, cpu, memory in steps:
            share = Share(cpu, memory)
            if what == "throttle":
                book.throttle(name, cpu % 2 == 0)
            elif what == "best":
                able = [n for n in ("n1", "n2", "n3") if book.has_room(n, share)]
                able.sort(key=lambda n: (*used(book, n), n))
                self.assertEqual(book.best(share), able[0] if able else None)
            else:
                getattr(book, what)(name, share)


class GpuTests(SynchronousTestCase):
    """
    Nodes with GPUs.
    """

    a = Gpu(5, 90, 53, 90, 32, 26)
    b = Gpu(85, 90, 64, 90, 43, 12)

    def test_room(self) -> None:
        """
        A share of a GPU has to fit into one of them, by all four numbers.
        """
        book = ledger(node("n1", 7, 35, gpus=(self.a, self.b)), node("n2", 85, 11))
        for gpu, fits in (
            (GpuShare(memory=50), True),
            (GpuShare(memory=84.9), True),
            (GpuShare(memory=85), False),
            (GpuShare(memory=86), False),
            (GpuShare(memory=50, encoder=50), True),
            (GpuShare(memory=4, encoder=57.9), True),
            (GpuShare(memory=50, encoder=58), False),
            (GpuShare(usage=37), False),
            (GpuShare(usage=36.9), True),
            (GpuShare(decoder=77.9), True),
            (GpuShare(decoder=78), False),
            (GpuShare(memory=5, decoder=70), False),
            (GpuShare(), True),
        ):
            share = Share(30, 5, gpu)
            self.assertEqual(book.has_room("n1", share), fits, gpu)
            self.assertEqual(book.best(share), "n1" if fits else None, gpu)
            expected = "" if fits else "no GPU has room for it"
            self.assertEqual(book.why_not("n1", share), expected, gpu)

    def test_no_gpu(self) -> None:
        """
        A node without any has no room for a share of one; added all the same,
        its CPU and memory are counted.
        """
        book = ledger(node("n1", 7, 35))
        share = Share(42, 33, GpuShare(4, 1, 2, 3))

        self.assertFalse(book.has_room("n1", share))
        self.assertTrue(book.has_room("n1", Share(42, 33, GpuShare())))
        book.add("n1", share)
        self.assertEqual(book.resources["n1"], Resources(49, 90, 68, 90))

    def test_refused_gpu(self) -> None:
        """
        That a share of a GPU found no room says nothing of those without.
        """
        book = ledger(node("n1", 7, 35))

        self.assertIsNone(book.best(Share(1, 1, GpuShare(usage=1))))
        self.assertEqual(book.best(Share(1, 1)), "n1")
        self.assertEqual(book.best(Share(2, 2)), "n1")

    def test_first_that_fits(self) -> None:
        """
        What is added goes to the first GPU with room for it.
        """
        full, free = Gpu(), Gpu(memory_limit=100, usage_limit=100)
        book = ledger(node("n1", 7, 35, gpus=(full, free)))

        book.add("n1", Share(42, 33, GpuShare(4, 1, 2, 3)))

        self.assertEqual(book.resources["n1"].gpus, (full, Gpu(4, 100, 1, 100, 2, 3)))

    def test_memory(self) -> None:
        """
        Memory of GPUs fills up like the rest.
        """
        book = ledger(node("n1", 1, 1, gpus=(Gpu(memory_limit=10, usage_limit=100),)))
        share = Share(1, 1, GpuShare(memory=6))
        self.assertTrue(book.has_room("n1", share))

        book.add("n1", share)

        self.assertFalse(book.has_room("n1", share))

    def test_first_is_released(self) -> None:
        """
        What is removed is given back to the GPU it was on, the one with the
        number 0 included, down to nothing in use at the least.
        """
        gpus = (Gpu(10, 90, 20, 90, 30, 40), Gpu(10, 90, 20, 90, 30, 40))
        for index in (0, 1):
            book = ledger(node("n1", 53, 35, gpus=gpus))
            book.remove("n1", Share(1, 1, GpuShare(4, 5, 6, 50, index)))
            left = [*gpus]
            left[index] = Gpu(6, 90, 15, 90, 24, 0)

            self.assertEqual(book.resources["n1"].gpus, tuple(left))

    def test_unknown_gpu(self) -> None:
        """
        Where it is not known which GPU it was on, or there is none of that
        number, nothing is given back.
        """
        gpus = (Gpu(10, 90, 20, 90, 30, 40),)
        for index in (None, 1, 7, -1):
            book = ledger(node("n1", 53, 35, gpus=gpus))
            book.remove("n1", Share(1, 1, GpuShare(4, 5, 6, 7, index)))

            self.assertEqual(book.resources["n1"].gpus, gpus)
            self.assertEqual(used(book, "n1"), (52, 34))


class ShareTests(SynchronousTestCase):
    """
    Shares of a GPU.
    """

    def test_wanted(self) -> None:
        """
        One asks for a GPU if any of its numbers does.
        """
        self.assertFalse(GpuShare(index=3).wanted)
        for name in ("memory", "usage", "encoder", "decoder"):
            self.assertTrue(GpuShare(**{name: 1}).wanted)
