"""
The ACL token, and where it comes from.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from .address import UnusableFile, is_token

log = structlog.get_logger(__name__)


class TokenSource:
    """
    The token requests carry.  It never shows in a ``repr``.

    As for Consul itself, a file wins over a plain token, unless it is empty.

    :ivar version: counts the tokens there have been.

    :param token: the token, ``None`` or empty for none.
    :param path: a file that holds it; whoever rotates tokens rewrites it.
    :raises UnusableFile: when the file cannot be read, or holds no token.
    """

    def __init__(self, token: str | None = None, path: str | None = None) -> None:
        self._given = token or None
        self._path = path or None
        self._from_file: str | None = None
        self.version = 0
        if self._path is not None:
            try:
                self._from_file = self._read(self._path)
            except (OSError, ValueError) as error:
                raise UnusableFile(
                    "token_file", f"token file {self._path!r} {_words(error)}"
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
        before = self.value
        self._given = token or None
        self._note(before)

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
            log.warning("token-file-unreadable", path=self._path, error=_words(error))
            return False
        return self._note(before)

    def _note(self, before: str | None) -> bool:
        """
        Count the token if it is another one than before; say whether it is.
        """
        changed = self.value != before
        self.version += changed
        return changed

    @staticmethod
    def _read(path: str) -> str | None:
        token = Path(path).read_text("utf-8").strip()
        if not is_token(token):
            raise ValueError
        return token or None


def _words(error: OSError | ValueError) -> str:
    """
    Say what is wrong with a file without its path, nor anything it holds.
    """
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return "holds something that is not a token"
