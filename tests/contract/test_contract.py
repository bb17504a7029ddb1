"""
The contract suite on its four backends.
"""

from __future__ import annotations

from twisted.trial.unittest import TestCase

from .access import AccessContract
from .backends import HttpBackend, MemoryBackend, RealBackend, SecureRealBackend
from .blocking import BlockingContract
from .catalog import CatalogContract
from .checks import CheckContract
from .expiry import ExpiryContract
from .kv import KvContract
from .sessions import SessionContract
from .transactions import TransactionContract


class ConsulContract(
    KvContract,
    SessionContract,
    CheckContract,
    CatalogContract,
    TransactionContract,
    BlockingContract,
    AccessContract,
    ExpiryContract,
):
    """
    All that this product expects of a Consul.
    """


class MemoryContractTests(ConsulContract, TestCase):
    """
    The embedded Consul in memory.
    """

    make_backend = MemoryBackend


class HttpContractTests(ConsulContract, TestCase):
    """
    The embedded Consul over HTTP.
    """

    make_backend = HttpBackend


class RealContractTests(ConsulContract, TestCase):
    """
    A real Consul.
    """

    make_backend = RealBackend


class SecureRealContractTests(ConsulContract, TestCase):
    """
    A real Consul with ACLs, the minimal policy, and TLS.
    """

    make_backend = SecureRealBackend
