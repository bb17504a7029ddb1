"""
The ACL token, and where it comes from.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from ..errors import ConfigurationError

log = structlog.get_logger(__name__)


class TokenSource:
    """
    The token requests carry.  It never shows in a ``repr``.

    As for Consul itself, a file wins over a plain token, unless it is empty.

    :param token: the token, ``None`` or empty for none.
    :param path: a file that holds it; whoever rotates tokens rewrites it.
    :raises ConfigurationError: when the file cannot be read.
    """

    def __init__(self, token: str | None = None, path: str | None = None) -> None:
        self._given = token or None
        self._path = path or None
        self._from_file: str | None = None
        if self._path is not None:
            try:
                self._from_file = self._read(self._path)
            except (OSError, ValueError) as error:
                raise ConfigurationError(
                    f"token file {self._path!r} cannot be read: {error}"
                ) from error

    def __repr__(self) -> str:
        kept = "none" if self.value is None else "hidden"
        return f"<TokenSource token={kept} file={self._path!r}>"

    @property
    def value(self) -> str | None:
        """
        The token as of now.
        """
        return self._from_file or self._given

    def set(self, token: str | None) -> None:
        """
        Use another plain token from now on.
        """
        self._given = token or None

    def refresh(self) -> bool:
        """
        Read the file again; say whether the token is another one now.

        A file that cannot be read leaves the token as it was.
        """
        if self._path is None:
            return False
        before = self.value
        try:
            self._from_file = self._read(self._path)
        except (OSError, ValueError) as error:
            log.warning("token-file-unreadable", path=self._path, error=str(error))
            return False
        return self.value != before

    @staticmethod
    def _read(path: str) -> str | None:
        token = Path(path).read_text("utf-8").strip()
        if not token.isprintable() or not token.isascii():
            raise ValueError("it holds something that is not a token")
        return token or None
