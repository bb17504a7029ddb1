"""
Tests for :mod:`voltha_coord.cgroup` and :mod:`voltha_coord.hierarchy`.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.support.meters import Files
from voltha_coord.cgroup import (
    Limited,
    cpu_limit,
    cpu_seconds,
    memory_limit,
    memory_used,
)
from voltha_coord.hierarchy import GROUPS, MOUNTS, read_text

#: What version 1 says where there is no limit.
UNLIMITED = 9223372036854771712

V2 = "/sys/fs/cgroup"
CPU, ACCT, MEM = (f"/sys/fs/cgroup/{name}" for name in ("cpu", "cpuacct", "memory"))


class GroupCase(SynchronousTestCase):
    """
    A test on a tree of files.
    """

    def setUp(self) -> None:
        """
        Begin without files.
        """
        self.files = Files()
        self.read = self.files.read

    def groups(self, *lines: str) -> None:
        """
        Say in which groups this process is.
        """
        self.files.texts[GROUPS] = "\n".join(lines)

    def mounts(self, *mounts: tuple[str, str, str]) -> None:
        """
        Mount hierarchies: the root, where, and the controllers of version 1.
        """
        lines = ["22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw", "junk"]
        for number, (root, where, controllers) in enumerate(mounts):
            kind = "cgroup" if controllers else "cgroup2"
            lines.append(
                f"{30 + number} 23 0:{number} {root} {where} rw,relatime shared:9"
                f" - {kind} {kind} rw{controllers and ',' + controllers}"
            )
        self.files.texts[MOUNTS] = "\n".join(lines)

    def put(self, place: str, **texts: Any) -> None:
        """
        Write files of a group.
        """
        self.files.put(place, **texts)

    def cpu(self) -> float | None:
        """
        Give the limit of CPU.
        """
        found = cpu_limit(self.read)
        return None if found is None else found.limit

    def memory(self) -> float | None:
        """
        Give the limit of memory.
        """
        found = memory_limit(self.read)
        return None if found is None else found.limit


class Version2Tests(GroupCase):
    """
    Control groups of version 2.
    """

    def setUp(self) -> None:
        """
        Begin in a group of two levels.
        """
        super().setUp()
        self.groups("0::/pod/app")
        self.mounts(("/", V2, ""))

    def test_limits(self) -> None:
        """
        The limits of the group are read, and what it uses: without file pages
        that nobody needs.
        """
        self.put(
            f"{V2}/pod/app",
            cpu__max="150000 100000",
            memory__max="1000",
            cpu__stat="nr_periods 3\nusage_usec 2500000\nuser_usec 1",
            memory__current="700",
            memory__stat="anon 5\ninactive_file 200\nactive_file 3",
        )

        cpu, memory = cpu_limit(self.read), memory_limit(self.read)

        self.assertEqual(cpu, Limited(150.0, f"{V2}/pod/app", 2))
        self.assertEqual(memory, Limited(1000.0, f"{V2}/pod/app", 2))
        assert cpu is not None and memory is not None
        self.assertEqual(cpu_seconds(self.read, cpu), 2.5)
        self.assertEqual(memory_used(self.read, memory), 500.0)

    def test_unlimited(self) -> None:
        """
        ``max`` is no limit, nor is a file that is not there, as in the root.
        """
        self.put(f"{V2}/pod/app", cpu__max="max 100000", memory__max="max")

        self.assertEqual((self.cpu(), self.memory()), (None, None))

    def test_around(self) -> None:
        """
        The limit of a group around ours holds where it is tighter; what that
        group uses counts.
        """
        self.put(f"{V2}/pod", cpu__max="50000 100000", memory__max="900")
        self.put(f"{V2}/pod/app", cpu__max="80000 100000", memory__max="800")

        self.assertEqual(cpu_limit(self.read), Limited(50.0, f"{V2}/pod", 2))
        self.assertEqual(memory_limit(self.read), Limited(800.0, f"{V2}/pod/app", 2))

    def test_equal(self) -> None:
        """
        Of two equal limits the outer one counts.
        """
        self.put(f"{V2}/pod", memory__max="800")
        self.put(f"{V2}/pod/app", memory__max="800")

        self.assertEqual(memory_limit(self.read), Limited(800.0, f"{V2}/pod", 2))

    def test_container(self) -> None:
        """
        Within a container its group is the top that can be seen, by its name in a
        namespace of its own, and without one.
        """
        self.put(V2, memory__max="800")
        self.put(f"{V2}/../other", memory__max="5")
        for path, root in (
            ("/", "/"),
            ("/docker/abc", "/docker/abc"),
            ("/", "/.."),
            ("/../other", "/"),
            ("/docker/abc", "/elsewhere"),
        ):
            self.groups(f"0::{path}")
            self.mounts((root, V2, ""))
            self.assertEqual(memory_limit(self.read), Limited(800.0, V2, 2), path)

    def test_part_of_a_container(self) -> None:
        """
        A group within a container's is found below where that is mounted.
        """
        self.groups("0::/docker/abc/inner")
        self.mounts(("/docker/abc", V2, ""))
        self.put(f"{V2}/inner", memory__max="800")
        self.put(V2, memory__max="900")

        self.assertEqual(memory_limit(self.read), Limited(800.0, f"{V2}/inner", 2))

    def test_a_name_alike(self) -> None:
        """
        A mount of another group whose name only begins alike is not ours.
        """
        self.groups("0::/podium")
        self.mounts(("/pod", "/other", ""), ("/podium", V2, ""))
        self.put(V2, memory__max="800")

        self.assertEqual(self.memory(), 800.0)

    def test_blanks(self) -> None:
        """
        The name of a mount may have blanks in it.
        """
        self.groups("0::/")
        self.mounts(("/", r"/my\040groups", ""))
        self.put("/my groups", memory__max="800")

        self.assertEqual(self.memory(), 800.0)

    def test_default_period(self) -> None:
        """
        A quota without a period is of the kernel's usual one.
        """
        self.put(f"{V2}/pod", cpu__max="50000")

        self.assertEqual(self.cpu(), 50.0)

    def test_garbage(self) -> None:
        """
        What makes no sense is refused, with the name of the file.
        """
        place = f"{V2}/pod/app"
        for name, text, ask in (
            ("cpu.max", "lots 100000", self.cpu),
            ("cpu.max", "1 0", self.cpu),
            ("cpu.max", "-5 100", self.cpu),
            ("memory.max", "", self.memory),
            ("memory.max", "1e3", self.memory),
            ("memory.max", "٣", self.memory),
        ):
            self.files.texts = {
                GROUPS: self.files.texts[GROUPS],
                MOUNTS: self.files.texts[MOUNTS],
                f"{place}/{name}": text,
            }
            error = self.assertRaises(ValueError, ask)
            self.assertIn(f"{place}/{name}: ", str(error))

    def test_unreadable(self) -> None:
        """
        A file that may not be read is no missing limit.
        """
        self.put(f"{V2}/pod", memory__max=PermissionError(13, "denied"))

        self.assertRaises(PermissionError, self.memory)

    def test_bad_usage(self) -> None:
        """
        Usage that is not told is refused.
        """
        group = Limited(5.0, f"{V2}/pod", 2)
        self.put(f"{V2}/pod", cpu__stat="nr_periods 3", memory__current="5")

        error = self.assertRaises(ValueError, cpu_seconds, self.read, group)
        self.assertIn("usage_usec", str(error))
        self.assertRaises(OSError, memory_used, self.read, group)


class Version1Tests(GroupCase):
    """
    Control groups of version 1, and both at once.
    """

    def setUp(self) -> None:
        """
        Begin in a group of each controller, some of them mounted together.
        """
        super().setUp()
        self.groups("4:memory:/app", "2:cpu,cpuacct:/app", "1:name=systemd:/", "junk")
        self.both = "/sys/fs/cgroup/cpu,cpuacct"
        self.mounts(("/", MEM, "memory"), ("/", self.both, "cpu,cpuacct"))

    def test_limits(self) -> None:
        """
        The limits of the group are read, and what it uses.
        """
        self.put(
            f"{self.both}/app",
            cpu__cfs_quota_us="25000",
            cpu__cfs_period_us="50000",
            cpuacct__usage="1500000000",
        )
        self.put(
            f"{MEM}/app",
            memory__limit_in_bytes="1000",
            memory__usage_in_bytes="150",
            memory__stat="cache 3\ntotal_inactive_file 200",
        )

        cpu, memory = cpu_limit(self.read), memory_limit(self.read)

        self.assertEqual(cpu, Limited(50.0, f"{self.both}/app", 1))
        self.assertEqual(memory, Limited(1000.0, f"{MEM}/app", 1))
        assert cpu is not None and memory is not None
        self.assertEqual(cpu_seconds(self.read, cpu), 1.5)
        self.assertEqual(memory_used(self.read, memory), 0.0)

    def test_unlimited(self) -> None:
        """
        A quota of -1 is none; the limit of memory that stands for none is larger
        than any machine.
        """
        self.put(
            f"{self.both}/app", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000"
        )
        self.put(f"{MEM}/app", memory__limit_in_bytes=str(UNLIMITED))

        self.assertIsNone(self.cpu())
        self.assertGreater(self.memory() or 0, 2**60)

    def test_mounted_apart(self) -> None:
        """
        CPU time may be accounted for in a hierarchy of its own: the group of the
        same name counts, or else ours there.
        """
        self.mounts(("/", CPU, "cpu"), ("/", ACCT, "cpuacct"))
        self.put(f"{CPU}/app", cpu__cfs_quota_us="5", cpu__cfs_period_us="10")
        self.groups("2:cpu:/app/in", "3:cpuacct:/app/in")
        same = cpu_limit(self.read)
        self.groups("2:cpu:/app/in", "3:cpuacct:/mine")
        other = cpu_limit(self.read)

        self.assertEqual(same, Limited(50.0, f"{ACCT}/app", 1))
        self.assertEqual(other, Limited(50.0, f"{ACCT}/mine", 1))

    def test_hybrid(self) -> None:
        """
        Beside a version 2 without controllers, those of version 1 count; what has
        been moved to version 2 counts there.
        """
        unified = "/sys/fs/cgroup/unified"
        self.groups("4:memory:/app", "0::/app")
        self.mounts(("/", MEM, "memory"), ("/", unified, ""))
        self.put(f"{MEM}/app", memory__limit_in_bytes="1000")
        self.put(f"{unified}/app", memory__max="5", cpu__max="30 100")

        self.assertEqual(memory_limit(self.read), Limited(1000.0, f"{MEM}/app", 1))
        self.assertEqual(cpu_limit(self.read), Limited(30.0, f"{unified}/app", 2))


class NoGroupsTests(GroupCase):
    """
    Systems without control groups.
    """

    def test_none(self) -> None:
        """
        Where there are none, nothing is limited.
        """
        self.assertEqual((self.cpu(), self.memory()), (None, None))
        self.groups("0::/")
        self.assertEqual((self.cpu(), self.memory()), (None, None))
        self.mounts()
        self.assertEqual((self.cpu(), self.memory()), (None, None))
        self.groups("1:name=systemd:/")
        self.assertEqual((self.cpu(), self.memory()), (None, None))

    def test_here(self) -> None:
        """
        Whatever there is where this test runs can be read.
        """
        for limit, use in ((cpu_limit, cpu_seconds), (memory_limit, memory_used)):
            found = limit(read_text)
            if found is not None:
                self.assertGreater(found.limit, 0)
                self.assertGreaterEqual(use(read_text, found), 0)
