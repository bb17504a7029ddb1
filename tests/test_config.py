"""
Tests of where the value of an option comes from.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord import config
from voltha_coord.config import ConfigFile, Parameter, Value, read_file, resolve
from voltha_coord.errors import ConfigurationError

WEIGHT = Parameter("weight", config.weight, 1.0, "a share")
PORT = Parameter("rest-port", config.port_or_off, 8880, "a port", ("REST_PORT",))
PARAMETERS = (WEIGHT, PORT)


class ResolveTests(SynchronousTestCase):
    """
    Tests of :func:`resolve`.
    """

    def weight(self, **sources: Any) -> Value:
        """
        Resolve the weight.
        """
        file = ConfigFile("c.yaml", {"weight": 2}, {"weight": "weight"})
        everything: dict[str, Any] = {
            "given": {"weight": "4"},
            "environ": {"VOLTHA_COORD_WEIGHT": "3"},
            "file": file,
        }
        nothing: dict[str, Any] = {"given": {}, "environ": {}, "file": None}
        chosen = {k: (everything if sources.get(k) else nothing)[k] for k in nothing}
        return resolve(PARAMETERS, **chosen)["weight"]

    def test_precedence(self) -> None:
        """
        The command line wins over the environment, that over the file, that
        over the default; each is named as the source.
        """
        self.assertEqual(
            self.weight(given=True, environ=True, file=True),
            Value(4.0, "the command line"),
        )
        self.assertEqual(
            self.weight(environ=True, file=True), Value(3.0, "VOLTHA_COORD_WEIGHT")
        )
        self.assertEqual(self.weight(file=True), Value(2.0, "c.yaml, key weight"))
        self.assertEqual(self.weight(), Value(1.0, "default"))

    def test_aliases(self) -> None:
        """
        The original coordinator's variable counts, its own comes first, and an
        empty one is as none.
        """

        def port(**environ: str) -> Value:
            return resolve(PARAMETERS, {}, environ)["rest-port"]

        self.assertEqual(port(REST_PORT="1"), Value(1, "REST_PORT"))
        both = port(REST_PORT="1", VOLTHA_COORD_REST_PORT="2")
        self.assertEqual(both, Value(2, "VOLTHA_COORD_REST_PORT"))
        empty = port(REST_PORT="1", VOLTHA_COORD_REST_PORT="")
        self.assertEqual(empty, Value(1, "REST_PORT"))

    def test_refusals_name_their_source(self) -> None:
        """
        A value that cannot be used is refused with the option, what is wrong
        with it, and the source it comes from.
        """
        file = ConfigFile("c.yaml", {"rest-port": "x"}, {"rest-port": "rest_port"})
        for given, environ, from_file, text in [
            (
                {"weight": "0"},
                {},
                None,
                "--weight: 0 is not above 0 (from the command line)",
            ),
            (
                {},
                {"VOLTHA_COORD_WEIGHT": "nan"},
                None,
                "--weight: 'nan' is not a finite number (from VOLTHA_COORD_WEIGHT)",
            ),
            (
                {},
                {"REST_PORT": "70000"},
                None,
                "--rest-port: 70000 is not a port, 0 to 65535, nor off "
                "(from REST_PORT)",
            ),
            (
                {},
                {},
                file,
                "--rest-port: 'x' is not a port, nor off (from c.yaml, key rest_port)",
            ),
        ]:
            error = self.assertRaises(
                ConfigurationError, resolve, PARAMETERS, given, environ, from_file
            )
            self.assertEqual(str(error), text)


class ReadFileTests(SynchronousTestCase):
    """
    Tests of :func:`read_file`.
    """

    def read(self, content: str | bytes) -> ConfigFile:
        """
        Read a file with that content.
        """
        self.path = self.mktemp()
        with open(self.path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return read_file(Value(self.path, "VOLTHA_COORD_CONFIG"), PARAMETERS)

    def refused(self, content: str | bytes) -> str:
        """
        Say why that content is refused.
        """
        text = str(self.assertRaises(ConfigurationError, self.read, content))
        self.assertTrue(text.startswith(f"--config: {self.path!r} "), text)
        self.assertTrue(text.endswith("(from VOLTHA_COORD_CONFIG)"), text)
        return text

    def test_spellings(self) -> None:
        """
        Names are written with dashes or underscores; YAML's own values stay; a
        bare ``off`` is off.
        """
        found = self.read("rest_port: off\nweight: 2.5\n")

        self.assertEqual(found.values, {"rest-port": False, "weight": 2.5})
        values = resolve(PARAMETERS, {}, {}, found)
        self.assertIsNone(values["rest-port"].value)
        self.assertEqual(values["weight"].value, 2.5)

    def test_nothing_said(self) -> None:
        """
        An empty file, and an option without a value, say nothing.
        """
        self.assertEqual(self.read("# nothing\n").values, {})
        values = resolve(PARAMETERS, {}, {}, self.read("weight:\n"))
        self.assertEqual(values["weight"], Value(1.0, "default"))

    def test_unknown_keys(self) -> None:
        """
        Keys that are no options are refused, all of them named, with what may
        have been meant.
        """
        text = self.refused("rest-prot: 1\ncolour: red\n3: 4\n")

        self.assertIn("'rest-prot' (is 'rest-port' meant?)", text)
        self.assertIn("'colour'", text)
        self.assertIn("3", text)

    def test_both_spellings(self) -> None:
        """
        An option given twice is refused.
        """
        self.assertIn("twice", self.refused("rest-port: 1\nrest_port: 2\n"))

    def test_not_a_mapping(self) -> None:
        """
        A list, a text, broken YAML and bytes that are no text are refused.
        """
        self.assertIn("not a mapping", self.refused("- weight\n"))
        self.assertIn("not a mapping", self.refused("weight\n"))
        self.assertIn("not YAML", self.refused("weight: [1\n"))
        error = self.assertRaises(ConfigurationError, self.read, b"\xff\xfe\xff")
        self.assertIn("--config", str(error))

    def test_missing(self) -> None:
        """
        A file that is not there is refused.
        """
        error = self.assertRaises(
            ConfigurationError, read_file, Value("gone.yaml", "x"), PARAMETERS
        )
        self.assertEqual(
            str(error),
            "--config: cannot read 'gone.yaml': No such file or directory (from x)",
        )

    def test_yaml_that_builds_objects(self) -> None:
        """
        A file cannot make Python objects.
        """
        self.assertIn(
            "not YAML", self.refused("weight: !!python/object/apply:os.getpid []\n")
        )


class ConverterTests(SynchronousTestCase):
    """
    Tests of what values may look like.
    """

    def check(self, convert: Any, good: list[tuple[Any, Any]], bad: list[Any]) -> None:
        """
        Take the good ones, refuse the bad ones.
        """
        for raw, value in good:
            self.assertEqual(convert(raw), value)
        for raw in bad:
            self.assertRaises(ValueError, convert, raw)

    def test_port(self) -> None:
        """
        Ports are whole numbers that TCP has.
        """
        good = [("0", 0), (8880, 8880), ("65535", 65535)]
        bad = ["-1", "65536", "1.5", 1.5, True, "", "http", None, [1], "off"]
        self.check(config.port, good, bad)

    def test_port_or_off(self) -> None:
        """
        A port may be off; a yes is no port.
        """
        good = [("off", None), ("OFF", None), (False, None), ("1", 1)]
        self.check(config.port_or_off, good, [True, "on", ""])

    def test_number(self) -> None:
        """
        Numbers are finite, and a yes is no number.
        """
        good = [("1.5", 1.5), (2, 2.0), ("-1", -1.0)]
        bad = [True, "nan", "inf", "", "x", None, [1], float("nan")]
        self.check(config.number, good, bad)

    def test_weight(self) -> None:
        """
        Weights are above 0.
        """
        self.check(config.weight, [("0.5", 0.5)], ["0", "-1", "nan"])

    def test_boolean(self) -> None:
        """
        A yes and a no have several words.
        """
        good = [("1", True), ("Yes", True), (True, True), ("off", False), (0, False)]
        self.check(config.boolean, good, ["", "maybe", None, 2])

    def test_host(self) -> None:
        """
        Hosts are names or addresses, not URLs.
        """
        good = [("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("node-1.x", "node-1.x")]
        bad = ["", " ", "a b", "http://a", "a,b", "user@a", "a\nb", True, ["a"]]
        bad += ["a..b", "a" * 64]
        self.check(config.host, good, bad)

    def test_datacenter(self) -> None:
        """
        Datacenters are what a real Consul lets them be called.
        """
        good = [("dc1", "dc1"), ("eu-west_1", "eu-west_1"), (1, "1")]
        self.check(config.datacenter, good, ["", "a b", "a.b", "\u00e4", ["a"]])

    def test_texts(self) -> None:
        """
        Several texts are a list, or have commas between them.
        """
        good = [("a", ("a",)), ("a, b", ("a", "b")), (["a", "b"], ("a", "b"))]
        self.check(config.texts, good, ["", "a,,b", [], [""]])

    def test_one_of(self) -> None:
        """
        A choice is refused with what there is to choose from.
        """
        choice = config.one_of("console", "json")

        self.assertEqual(choice("json"), "json")
        error = self.assertRaises(ValueError, choice, "xml")
        self.assertEqual(str(error), "'xml' is none of console, json")
