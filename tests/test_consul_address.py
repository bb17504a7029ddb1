"""
Tests for addresses, Consul's environment variables and TLS files.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.address import (
    Address,
    ConnectionSettings,
    TLSSettings,
    from_environment,
    parse_address,
    parse_addresses,
)
from voltha_coord.errors import ConfigurationError


class AddressTests(SynchronousTestCase):
    """
    Every form people write an address in (V12, field reports 110 and 112).
    """

    def test_forms(self) -> None:
        """
        Each form is read, and written as a URL.
        """
        for text, url in (
            ("consul", "http://consul:8500"),
            ("consul:8501", "http://consul:8501"),
            (" localhost:8500\n", "http://localhost:8500"),
            ("consul.service.dc-1.consul.", "http://consul.service.dc-1.consul.:8500"),
            ("my_consul", "http://my_consul:8500"),
            ("10.0.0.1", "http://10.0.0.1:8500"),
            ("10.0.0.1:80", "http://10.0.0.1:80"),
            ("::1", "http://[::1]:8500"),
            ("[::1]", "http://[::1]:8500"),
            ("[::1]:8501", "http://[::1]:8501"),
            ("fe80::1%eth0", "http://[fe80::1%eth0]:8500"),
            ("2001:DB8:0::1", "http://[2001:db8::1]:8500"),
            ("http://consul", "http://consul:80"),
            ("http://consul:8500/", "http://consul:8500"),
            ("https://consul", "https://consul:443"),
            ("https://[::1]:8501", "https://[::1]:8501"),
            ("unix:///var/run/consul.sock", "unix:///var/run/consul.sock"),
        ):
            self.assertEqual(str(parse_address(text)), url, text)

    def test_bad(self) -> None:
        """
        What is no address is refused with the text.
        """
        for text in (
            "",
            "  ",
            ":8500",
            "consul:",
            "consul:0",
            "consul:65536",
            "consul:http",
            "consul:-1",
            "consul:8500:8500",
            "[::1",
            "[::1]8500",
            "[consul]:8500",
            "1.2.3",
            "1.2.3.256:8500",
            "con sul",
            "-consul",
            "consul/v1",
            "http://",
            "http://consul/path",
            "ftp://consul",
            "HTTP//consul",
            "unix://relative",
        ):
            error = self.assertRaises(ConfigurationError, parse_address, text)
            self.assertIn(repr(text), str(error))

    def test_credentials(self) -> None:
        """
        A password in an address is refused without being repeated.
        """
        error = self.assertRaises(
            ConfigurationError, parse_address, "http://user:s3cret@consul"
        )
        self.assertNotIn("s3cret", str(error))

    def test_tls(self) -> None:
        """
        With TLS asked for, nothing but a socket goes without.
        """
        for text, url in (
            ("consul:8501", "https://consul:8501"),
            ("http://consul:8501", "https://consul:8501"),
            ("http://consul", "https://consul:443"),
            ("unix:///s", "unix:///s"),
        ):
            self.assertEqual(str(parse_address(text, tls=True)), url)

    def test_ip(self) -> None:
        """
        A literal is told from a name.
        """
        self.assertIsNone(parse_address("consul").ip)
        self.assertEqual(str(parse_address("[::1]:1").ip), "::1")

    def test_several(self) -> None:
        """
        Several addresses are read, each once, in order.
        """
        self.assertEqual(
            [str(a) for a in parse_addresses(["a,b:1", "http://a:8500"])],
            ["http://a:8500", "http://b:1"],
        )
        self.assertEqual(parse_addresses("a"), (parse_address("a"),))

    def test_several_bad(self) -> None:
        """
        None at all, or an empty one between commas, is an error.
        """
        self.assertRaises(ConfigurationError, parse_addresses, [])
        self.assertRaises(ConfigurationError, parse_addresses, "a,,b")


class EnvironmentTests(SynchronousTestCase):
    """
    Consul's variables mean what they mean to Consul (field report 110).
    """

    def test_nothing(self) -> None:
        """
        Without any, it is the agent of this machine.
        """
        self.assertEqual(from_environment({}), ConnectionSettings())
        self.assertEqual(str(Address()), "http://127.0.0.1:8500")

    def test_empty(self) -> None:
        """
        An empty variable counts as not set.
        """
        names = ("ADDR", "TOKEN", "SSL", "SSL_VERIFY", "AUTH", "TOKEN_FILE")
        environ = {f"CONSUL_HTTP_{name}": "" for name in names}
        self.assertEqual(from_environment(environ), ConnectionSettings())

    def test_all(self) -> None:
        """
        Every variable is read.
        """
        settings = from_environment(
            {
                "CONSUL_HTTP_ADDR": "consul:8501",
                "CONSUL_HTTP_TOKEN": "t",
                "CONSUL_HTTP_TOKEN_FILE": "/token",
                "CONSUL_HTTP_SSL": "1",
                "CONSUL_HTTP_SSL_VERIFY": "False",
                "CONSUL_CACERT": "/ca",
                "CONSUL_CAPATH": "/cas",
                "CONSUL_CLIENT_CERT": "/cert",
                "CONSUL_CLIENT_KEY": "/key",
                "CONSUL_TLS_SERVER_NAME": "server.dc1.consul",
                "CONSUL_HTTP_AUTH": "u:p",
                "CONSUL_NAMESPACE": "team",
            }
        )

        self.assertEqual(
            settings,
            ConnectionSettings(
                addresses=(Address("https", "consul", 8501),),
                token="t",
                token_file="/token",
                tls=TLSSettings(
                    "/ca", "/cas", "/cert", "/key", "server.dc1.consul", False
                ),
                namespace="team",
                basic_auth="u:p",
            ),
        )

    def test_truth(self) -> None:
        """
        Truth is what Go takes for it; the rest is an error naming the
        variable ("False" is not true: field report 112).
        """
        for text, verify in (("true", True), ("T", True), ("0", False), ("f", False)):
            settings = from_environment({"CONSUL_HTTP_SSL_VERIFY": text})
            self.assertIs(settings.tls.verify, verify)
        for name in ("CONSUL_HTTP_SSL", "CONSUL_HTTP_SSL_VERIFY"):
            error = self.assertRaises(
                ConfigurationError, from_environment, {name: "yes"}
            )
            self.assertIn(name, str(error))
            self.assertIn("'yes'", str(error))

    def test_bad_address(self) -> None:
        """
        A bad address names its variable.
        """
        error = self.assertRaises(
            ConfigurationError, from_environment, {"CONSUL_HTTP_ADDR": "a:b:c"}
        )
        self.assertIn("CONSUL_HTTP_ADDR", str(error))
        self.assertIn("'a:b:c'", str(error))

    def test_given_addresses(self) -> None:
        """
        Addresses given elsewhere win; TLS still counts.
        """
        settings = from_environment(
            {"CONSUL_HTTP_ADDR": "a:b:c", "CONSUL_HTTP_SSL": "true"}, ["other:1"]
        )
        self.assertEqual([str(a) for a in settings.addresses], ["https://other:1"])

    def test_given_token_file(self) -> None:
        """
        A token file given elsewhere wins, and is not said to come from Consul's
        variable.
        """
        environ = {"CONSUL_HTTP_TOKEN_FILE": "/a", "CONSUL_CACERT": "/b"}

        theirs = from_environment(environ)
        ours = from_environment(environ, token_file="/c")

        self.assertEqual((theirs.token_file, ours.token_file), ("/a", "/c"))
        self.assertEqual(theirs.sources["token_file"], "CONSUL_HTTP_TOKEN_FILE")
        self.assertEqual(ours.sources, {"ca_file": "CONSUL_CACERT"})

    def test_bad_names(self) -> None:
        """
        A namespace or datacenter that Consul lets nobody have is refused.
        """
        error = self.assertRaises(
            ConfigurationError, from_environment, {"CONSUL_NAMESPACE": "a/b"}
        )
        self.assertIn("CONSUL_NAMESPACE: 'a/b'", str(error))
        error = self.assertRaises(
            ConfigurationError, ConnectionSettings, datacenter="a b"
        )
        self.assertIn("datacenter: 'a b'", str(error))

    def test_bad_token(self) -> None:
        """
        A token that no header can carry is refused without being repeated.
        """
        for token in ("s3cret\nx", "s3cret\u00e4"):
            error = self.assertRaises(
                ConfigurationError, from_environment, {"CONSUL_HTTP_TOKEN": token}
            )
            self.assertIn("CONSUL_HTTP_TOKEN", str(error))
            self.assertNotIn("s3cret", str(error))

    def test_secrets(self) -> None:
        """
        Secrets do not show.
        """
        settings = ConnectionSettings(token="s3cret", basic_auth="u:s3cret")
        self.assertNotIn("s3cret", repr(settings))
