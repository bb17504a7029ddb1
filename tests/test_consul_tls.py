"""
Tests for TLS to an agent, for host names, and for making a requester of
settings.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
from pathlib import Path
from threading import Event
from threading import enumerate as threads
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from twisted.internet import reactor as _reactor
from twisted.internet._resolver import GAIResolver
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import (
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from twisted.internet.ssl import Certificate, CertificateOptions, PrivateCertificate
from twisted.internet.task import Clock, deferLater
from twisted.internet.tcp import Client
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from tests.test_consul_http import Connection, Server, hang, reply
from tests.test_consul_requester import GET
from voltha_coord._types import Steps
from voltha_coord.consul.address import (
    Address,
    ConnectionSettings,
    TLSSettings,
    UnusableFile,
    from_environment,
)
from voltha_coord.consul.connect import connect
from voltha_coord.consul.http import HttpTransport
from voltha_coord.consul.names import RememberingResolver, _Threads, resolver_of
from voltha_coord.consul.tls import TLSContext
from voltha_coord.consul.transport import NotConnected
from voltha_coord.errors import ConfigurationError, RequestTimedOut

#: Typed as what it is not declared to be: all the reactor interfaces at once.
reactor: Any = _reactor


class Authority:
    """
    A certificate authority of a few files.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key.public_key(), ca=True)
        self.ca_file = self._write("ca.pem", self._pem(self.certificate))

    def _sign(
        self, subject: x509.Name, key: Any, names: Any = (), ca: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        return builder.sign(self._key, hashes.SHA256())

    @staticmethod
    def _pem(certificate: x509.Certificate) -> bytes:
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def issue(self, name: str, passphrase: bytes = b"") -> tuple[str, str]:
        """
        Make a certificate for a name, 127.0.0.1 and ::1, and its key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        if name == "localhost":
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        certificate = self._sign(subject, key.public_key(), names)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(passphrase)
            if passphrase
            else serialization.NoEncryption(),
        )
        return (
            self._write(f"{name}.pem", self._pem(certificate)),
            self._write(f"{name}.key", pem),
        )


class TLSTests(TestCase):
    """
    Requests over TLS.
    """

    timeout = 10

    def setUp(self) -> None:
        """
        Make two authorities, one of which is not ours.
        """
        self.ours = Authority("ours", Path(self.mktemp()))
        self.foreign = Authority("foreign", Path(self.mktemp()))

    def serve(
        self, name: str = "localhost", *, ask_client: bool = False
    ) -> tuple[Server, int]:
        """
        Start a server with a certificate for ``name``.
        """
        cert_file, key_file = self.ours.issue(name)
        certificate = PrivateCertificate.loadPEM(
            Path(cert_file).read_bytes() + Path(key_file).read_bytes()
        )
        if ask_client:
            authority = Certificate.loadPEM(Path(self.ours.ca_file).read_bytes())
            options = certificate.options(authority)
        else:
            options = certificate.options()
        server = Server(lambda c, *_: c.send(reply(b"secret")))
        port = reactor.listenSSL(0, server, options, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.addCleanup(server.when_empty)
        return server, port.getHost().port

    def transport(
        self, number: int, host: str = "127.0.0.1", **settings: Any
    ) -> HttpTransport:
        """
        Make a transport.
        """
        settings.setdefault("ca_file", self.ours.ca_file)
        transport = HttpTransport(
            reactor,
            Address("https", host, number),
            TLSContext(TLSSettings(**settings)),
            connect_timeout=0.5,
        )
        self.addCleanup(transport.close)
        return transport

    @inlineCallbacks
    def test_trusted(self) -> Steps[None]:
        """
        An agent whose authority is trusted is spoken to, by IP or by name.
        """
        _, number = self.serve()
        for host in ("127.0.0.1", "localhost"):
            response = yield self.transport(number, host).request(GET)
            self.assertEqual(response.body, b"secret")

    @inlineCallbacks
    def test_quiet(self) -> Steps[None]:
        """
        No factory of a connection tells the application's log of its start.
        """
        events: list[Any] = []
        observer: Any = events.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        _, number = self.serve()

        yield self.transport(number).request(GET)

        told = [str(event["factory"]) for event in events if "factory" in event]
        # But for the factory of the test's own server.
        self.assertEqual([text for text in told if "Server" not in text], [])

    @inlineCallbacks
    def test_ca_path(self) -> Steps[None]:
        """
        Authorities may be in a folder.
        """
        _, number = self.serve()
        folder = Path(self.mktemp())
        folder.mkdir()
        for name, authority in (("a.pem", self.foreign), ("b.pem", self.ours)):
            (folder / name).write_bytes(Path(authority.ca_file).read_bytes())

        response = yield self.transport(
            number, ca_file=None, ca_path=str(folder)
        ).request(GET)

        self.assertEqual(response.body, b"secret")

    @inlineCallbacks
    def test_not_trusted(self) -> Steps[None]:
        """
        An agent of another authority is not spoken to; nor is one of the
        system's authorities when it has none of them.
        """
        server, number = self.serve()
        for ca_file in (self.foreign.ca_file, None):
            error = yield self.assertFailure(
                self.transport(number, ca_file=ca_file).request(GET), NotConnected
            )
            self.assertIn("certificate verify failed", str(error))

        self.assertEqual(server.requests, [])

    @inlineCallbacks
    def test_wrong_name(self) -> Steps[None]:
        """
        A certificate for another name is refused, unless that name is the one
        to expect.
        """
        server, number = self.serve("server.dc1.consul")

        yield self.assertFailure(self.transport(number).request(GET), NotConnected)
        self.assertEqual(server.requests, [])
        response = yield self.transport(
            number, server_name="server.dc1.consul"
        ).request(GET)

        self.assertEqual(response.body, b"secret")

    @inlineCallbacks
    def test_unverified(self) -> Steps[None]:
        """
        Without verification any certificate will do, by IP or by name.
        """
        _, number = self.serve("elsewhere")
        for host in ("127.0.0.1", "localhost"):
            response = yield self.transport(
                number, host, ca_file=self.foreign.ca_file, verify=False
            ).request(GET)
            self.assertEqual(response.body, b"secret")

    @inlineCallbacks
    def test_client_certificate(self) -> Steps[None]:
        """
        An agent that asks for our certificate gets it; without one it does
        not answer.
        """
        server, number = self.serve(ask_client=True)
        cert_file, key_file = self.ours.issue("member")

        response = yield self.transport(
            number, cert_file=cert_file, key_file=key_file
        ).request(GET)
        self.assertEqual(response.body, b"secret")

        error = yield self.assertFailure(self.transport(number).request(GET), Exception)
        self.assertEqual(len(server.requests), 1)
        self.assertIsNot(type(error), RequestTimedOut)

    @inlineCallbacks
    def test_handshake_that_hangs(self) -> Steps[None]:
        """
        A handshake that does not go on is no connection in time, and leaves
        none open.
        """
        server = Server(hang)
        port = reactor.listenTCP(0, _mute(server), interface="127.0.0.1")
        self.addCleanup(port.stopListening)

        error = yield self.assertFailure(
            self.transport(port.getHost().port).request(GET), NotConnected
        )

        self.assertIn("within 0.5 s", str(error))
        yield server.when_empty()

    @inlineCallbacks
    def test_cancel_under_a_deaf_agent(self) -> Steps[None]:
        """
        A request given up within its answer leaves no connection open, though
        the agent does not return the farewell of TLS.
        """

        def handler(connection: Connection, *_: Any) -> None:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            deferLater(reactor, 0.05, connection.deaf)

        server, number = self.serve()
        server.handler = handler
        request = self.transport(number).request(GET)
        yield deferLater(reactor, 0.2)

        request.cancel()

        self.failureResultOf(request, CancelledError)
        yield deferLater(reactor, 0.05)
        self.assertEqual([r for r in reactor.getReaders() if isinstance(r, Client)], [])
        for connection in server.open:
            connection.reset()

    @inlineCallbacks
    def test_plain_server(self) -> Steps[None]:
        """
        An agent that speaks no TLS is no agent of ours.
        """
        server = Server(hang)
        factory = _mute(server, b"HTTP/1.1 400 Bad Request\r\n\r\n")
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)

        yield self.assertFailure(
            self.transport(port.getHost().port).request(GET), NotConnected
        )

        yield server.when_empty()

    def test_no_context(self) -> None:
        """
        An https address takes a TLS context.
        """
        error = self.assertRaises(
            ValueError, HttpTransport, reactor, Address("https", "x", 1)
        )
        self.assertIn("https://x:1", str(error))

    def test_files(self) -> None:
        """
        A file that does not serve is named.
        """
        cert_file, key_file = self.ours.issue("member")
        _, other_key = self.foreign.issue("other")
        _, locked_key = self.ours.issue("locked", b"passphrase")
        empty = self.ours._write("empty.pem", b"")
        damaged = self.ours._write(
            "damaged.pem",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        bare = Path(self.mktemp())
        bare.mkdir()
        for settings, named in (
            (TLSSettings(ca_file="/no/ca"), "/no/ca"),
            (TLSSettings(ca_file=empty), empty),
            (TLSSettings(ca_file=damaged), damaged),
            (TLSSettings(ca_path="/no/folder"), "/no/folder"),
            (TLSSettings(ca_path=str(bare)), str(bare)),
            (TLSSettings(cert_file="/no/cert"), "/no/cert"),
            (TLSSettings(cert_file=empty), empty),
            (TLSSettings(cert_file=cert_file), cert_file),
            (TLSSettings(cert_file=cert_file, key_file="/no/key"), "/no/key"),
            (TLSSettings(cert_file=cert_file, key_file=empty), empty),
            (TLSSettings(cert_file=cert_file, key_file=other_key), other_key),
            (TLSSettings(cert_file=cert_file, key_file=locked_key), locked_key),
            (TLSSettings(key_file=key_file), key_file),
        ):
            error = self.assertRaises(UnusableFile, TLSContext, settings)
            self.assertIn(repr(named), str(error))
            self.assertEqual(str(error).count(named), 1, error)
            self.assertNotIn("[(", str(error))
            setting = "key_file" if settings.key_file else "cert_file"
            if settings.cert_file is None and settings.key_file is None:
                setting = "ca_path" if settings.ca_path else "ca_file"
            self.assertEqual(error.setting, setting)

    def test_one_file(self) -> None:
        """
        Certificate, chain and key may be in one file.
        """
        cert_file, key_file = self.ours.issue("member")
        together = self.ours._write(
            "together.pem",
            Path(cert_file).read_bytes()
            + Path(self.ours.ca_file).read_bytes()
            + Path(key_file).read_bytes(),
        )

        context = TLSContext(TLSSettings(cert_file=together))

        self.assertIsInstance(
            CertificateOptions(**context._identity), CertificateOptions
        )
        self.assertEqual(len(context._identity["extraCertChain"]), 1)


def _mute(server: Server, greeting: bytes = b"") -> Server:
    """
    Make a factory of connections that do not understand what they are told.
    """

    class Mute(Connection):
        """
        Says its greeting at most.
        """

        def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
            """
            Answer with the greeting.
            """
            if greeting:
                self.send(greeting)
                self.close()

    server.protocol = Mute
    return server


@implementer(IHostnameResolver)
class ScriptedResolver:
    """
    Answers lookups by hand.
    """

    def __init__(self) -> None:
        self.receivers: list[IResolutionReceiver] = []

    def resolveHostName(  # noqa: N802 (Twisted's name)
        self,
        resolutionReceiver: IResolutionReceiver,  # noqa: N803 (Twisted's name)
        hostName: str,  # noqa: N803 (Twisted's name)
        portNumber: int = 0,  # noqa: N803 (Twisted's name)
        addressTypes: Any = None,  # noqa: N803 (Twisted's name)
        transportSemantics: str = "TCP",  # noqa: N803 (Twisted's name)
    ) -> IHostResolution:
        """
        Note a lookup.
        """
        self.receivers.append(resolutionReceiver)
        return None  # type: ignore[return-value]  # nobody asks for it

    def answer(self, *hosts: str) -> None:
        """
        Finish the oldest lookup.
        """
        receiver = self.receivers.pop(0)
        for host in hosts:
            receiver.addressResolved(IPv4Address("TCP", host, 8500))
        receiver.resolutionComplete()


@implementer(IResolutionReceiver)
class Receiver:
    """
    Keeps what it is told.
    """

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.complete = False
        self.resolution: Any = None

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:  # noqa: N802, N803 (Twisted's names)
        """
        Keep the resolution.
        """
        self.resolution = resolutionInProgress

    def addressResolved(self, address: Any) -> None:  # noqa: N802 (Twisted's name)
        """
        Keep an address.
        """
        self.hosts.append(address.host)

    def resolutionComplete(self) -> None:  # noqa: N802 (Twisted's name)
        """
        Note the end.
        """
        assert not self.complete
        self.complete = True


class ResolvingClock(Clock):
    """
    A clock with a resolver.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nameResolver = ScriptedResolver()


class PoollessReactor:
    """
    A reactor with Twisted's own resolver, but no threads for it.
    """

    def __init__(self) -> None:
        self.callFromThread = reactor.callFromThread
        self.nameResolver: IHostnameResolver = GAIResolver(self)  # type: ignore[arg-type]  # as much of one as it needs

    def getThreadPool(self) -> Any:  # noqa: N802 (Twisted's name)
        """
        Fail the test.
        """
        raise AssertionError("a thread of the reactor was asked for")


class RememberingResolverTests(SynchronousTestCase):
    """
    Names go on working when DNS does not (field reports 144 and 145).
    """

    def setUp(self) -> None:
        """
        Make a resolver with a patience of a second.
        """
        self.clock = ResolvingClock()
        self.dns = self.clock.nameResolver
        self.resolver = RememberingResolver(self.clock, 8500, 1.0)

    def ask(self) -> Receiver:
        """
        Ask for the addresses.
        """
        receiver = Receiver()
        self.resolver.resolveHostName(receiver, "consul")
        return receiver

    def test_provides(self) -> None:
        """
        It is a resolver, and so is the double.
        """
        self.assertTrue(verifyObject(IHostnameResolver, self.resolver))
        self.assertTrue(verifyObject(IHostnameResolver, self.dns))

    def test_resolves(self) -> None:
        """
        It gives what DNS gives.
        """
        receiver = self.ask()
        self.assertFalse(receiver.complete)

        self.dns.answer("10.0.0.1", "10.0.0.2")

        self.assertEqual(receiver.hosts, ["10.0.0.1", "10.0.0.2"])
        self.assertTrue(receiver.complete)

    def test_one_lookup(self) -> None:
        """
        However many ask, one lookup is under way.
        """
        receivers = [self.ask() for _ in range(5)]

        self.assertEqual(len(self.dns.receivers), 1)
        self.dns.answer("10.0.0.1")

        self.assertEqual([r.hosts for r in receivers], [["10.0.0.1"]] * 5)

    def test_unknown(self) -> None:
        """
        A name that was never known has no address.
        """
        receiver = self.ask()
        self.dns.answer()

        self.assertTrue(receiver.complete)
        self.assertEqual(receiver.hosts, [])

    def test_dns_fails(self) -> None:
        """
        When DNS knows the name no more, the last good address serves.
        """
        self.ask()
        self.dns.answer("10.0.0.1")

        receiver = self.ask()
        self.dns.answer()

        self.assertEqual(receiver.hosts, ["10.0.0.1"])

    def test_dns_hangs(self) -> None:
        """
        When DNS does not answer, the last good address serves after a second;
        the answer that comes at last is remembered.
        """
        self.ask()
        self.dns.answer("10.0.0.1")

        receiver = self.ask()
        self.clock.advance(0.9)
        self.assertFalse(receiver.complete)
        self.clock.advance(0.1)
        self.assertEqual(receiver.hosts, ["10.0.0.1"])
        self.dns.answer("10.0.0.9")
        later = self.ask()
        self.clock.advance(1)

        self.assertEqual(later.hosts, ["10.0.0.9"])

    def test_moved(self) -> None:
        """
        A new address is used as soon as DNS gives it.
        """
        self.ask()
        self.dns.answer("10.0.0.1")

        receiver = self.ask()
        self.dns.answer("10.0.0.2")

        self.assertEqual(receiver.hosts, ["10.0.0.2"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancelled(self) -> None:
        """
        Whoever gave up is told nothing.
        """
        receiver = self.ask()
        receiver.resolution.cancel()
        self.dns.answer("10.0.0.1")

        self.assertFalse(receiver.complete)
        self.assertEqual(receiver.hosts, [])


class ThreadsTests(TestCase):
    """
    Lookups by the system, in threads of our own (field report 144).
    """

    timeout = 10

    @inlineCallbacks
    def look_up(self, resolver: IHostnameResolver, name: str) -> Steps[Receiver]:
        """
        Look a name up.
        """
        receiver = Receiver()
        resolver.resolveHostName(receiver, name, 8500)
        while not receiver.complete:
            yield deferLater(reactor, 0.01)
        return receiver

    @inlineCallbacks
    def test_no_thread_of_the_reactor(self) -> Steps[None]:
        """
        In the place of Twisted's own resolver comes one that resolves the same,
        and fails the same, without a thread of the reactor's pool.
        """
        resolver = resolver_of(PoollessReactor())

        found = yield self.look_up(resolver, "localhost")
        unknown = yield self.look_up(resolver, "nowhere.invalid")

        self.assertIn("127.0.0.1", found.hosts)
        self.assertEqual(unknown.hosts, [])

    def test_threads_are_daemons(self) -> None:
        """
        A lookup that hangs keeps no process alive (field report 148).
        """
        hanging = Event()
        self.addCleanup(hanging.set)
        _Threads().callInThreadWithCallback(lambda *_: None, hanging.wait)

        ours = [one for one in threads() if one.name == "name-lookup"]

        self.assertEqual({one.daemon for one in ours}, {True})

    def test_an_application_has_its_own(self) -> None:
        """
        A resolver that was installed is used as it is.
        """
        clock = ResolvingClock()

        self.assertIs(resolver_of(clock), clock.nameResolver)


class ConnectTests(TestCase):
    """
    From settings to requests.
    """

    timeout = 10

    @inlineCallbacks
    def test_everything(self) -> Steps[None]:
        """
        Token, datacenter and a proxy's password arrive.
        """
        seen: list[Any] = []

        def handler(connection: Connection, *request: Any) -> None:
            seen.extend(request)
            connection.send(reply(b"[]"))

        server = Server(handler)
        port = reactor.listenTCP(0, server, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        requester = connect(
            reactor,
            ConnectionSettings(
                addresses=(Address("http", "127.0.0.1", port.getHost().port),),
                token="t",
                datacenter="east",
                basic_auth="user:pass:word",
            ),
        )

        yield requester.request(GET)

        self.assertEqual(seen[1], "/v1/kv/x?dc=east")
        self.assertEqual(seen[2]["x-consul-token"], "t")
        self.assertEqual(
            seen[2]["authorization"],
            "Basic " + base64.b64encode(b"user:pass:word").decode(),
        )
        yield requester.close()
        yield server.when_empty()

    def test_bad_files(self) -> None:
        """
        TLS files are read for https addresses alone.
        """
        tls = TLSSettings(ca_file="/no/ca")

        plain = connect(reactor, ConnectionSettings(tls=tls))
        self.assertEqual(plain.address, "http://127.0.0.1:8500")
        self.assertRaises(
            ConfigurationError,
            connect,
            reactor,
            ConnectionSettings((Address("https", "x", 1),), tls=tls),
        )

    def test_bad_files_from_somewhere(self) -> None:
        """
        The error about a file starts with what named it, where that is known.
        """
        environ = {"CONSUL_HTTP_SSL": "true", "CONSUL_CACERT": "/no/ca"}
        token = {"CONSUL_HTTP_TOKEN_FILE": "/no/token"}
        for variables, start in (
            (environ, "CONSUL_CACERT: CA file '/no/ca' "),
            (token, "CONSUL_HTTP_TOKEN_FILE: token file '/no/token' "),
        ):
            settings = from_environment(variables)
            error = self.assertRaises(UnusableFile, connect, reactor, settings)
            self.assertTrue(str(error).startswith(start), error)
        settings = from_environment(token, token_file="/no/other")
        error = self.assertRaises(UnusableFile, connect, reactor, settings)
        self.assertTrue(str(error).startswith("token file '/no/other' "), error)

    def test_user_alone(self) -> None:
        """
        ``CONSUL_HTTP_AUTH`` without a colon is a user without a password, as the
        ``consul`` command sends it.
        """
        settings = from_environment({"CONSUL_HTTP_AUTH": "foo"})

        requester = connect(reactor, settings)

        self.assertEqual(requester._headers["Authorization"], "Basic Zm9vOg==")
