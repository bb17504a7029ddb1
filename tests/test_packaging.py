"""
Tests of what is installed: the wheel, and nothing of the source tree.
"""

from __future__ import annotations

import os
import sysconfig
from importlib import metadata
from pathlib import Path, PurePosixPath

from twisted.trial.unittest import SkipTest, SynchronousTestCase

import voltha_coord


class InstalledTests(SynchronousTestCase):
    """
    Tests of the installed distribution.
    """

    def setUp(self) -> None:
        """
        Find it.
        """
        if "VOLTHA_TESTS_INSTALLED" not in os.environ:
            raise SkipTest("runs on the source tree; `make test` installs the package")
        self.distribution = metadata.distribution("voltha_coord")
        files = self.distribution.files
        assert files is not None
        self.files = [PurePosixPath(file) for file in files]

    def test_tested_package_is_the_installed_one(self) -> None:
        """
        What these tests import lies where packages are installed.
        """
        place = Path(sysconfig.get_path("purelib")).resolve()

        self.assertIsNotNone(voltha_coord.__file__)
        self.assertIn(place, Path(str(voltha_coord.__file__)).resolve().parents)

    def test_contents(self) -> None:
        """
        The package, the dropin, the script and the metadata are installed, and
        nothing else: no tests, no plugin cache.
        """
        sources = [f for f in self.files if "__pycache__" not in f.parts]
        others = [
            str(file)
            for file in sources
            if file.parts[0] != "voltha_coord"
            and not file.parts[0].endswith(".dist-info")
            and file.name != "voltha-coordctl"
        ]

        self.assertEqual(others, ["twisted/plugins/voltha_coord_plugin.py"])
        ours = [f for f in sources if f.parts[0] == "voltha_coord"]
        self.assertEqual({f.suffix for f in ours if f.name != "py.typed"}, {".py"})

    def test_every_subpackage(self) -> None:
        """
        No part of the package is left out, and types are shipped.
        """
        names = {str(file) for file in self.files}

        for module in ("consul", "embedded", "planning", "web", "ctl"):
            self.assertIn(f"voltha_coord/{module}/__init__.py", names)
        self.assertIn("voltha_coord/py.typed", names)
        self.assertTrue(any(f.name == "LICENSE" for f in self.files))

    def test_metadata(self) -> None:
        """
        The metadata says what it is, and the command line has a script.
        """
        self.assertEqual(self.distribution.metadata["License"], "Apache-2.0")
        scripts = self.distribution.entry_points.select(group="console_scripts")
        self.assertEqual([script.name for script in scripts], ["voltha-coordctl"])
        self.assertIsNotNone(scripts["voltha-coordctl"].load())
