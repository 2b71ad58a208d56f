"""Certificates for one test: an authority, and who it vouches for."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

HOST = "127.0.0.1"
PASSWORD = "for-the-key"
EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Made anew in a directory of its own by openssl."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl makes the certificates")
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / f"{name}.pem"
        self._key = directory / f"{name}.key"
        self._openssl(
            *("req", "-x509", "-nodes", *EC_KEY, "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def vouch_for(self, name: str, *, host: str = HOST, password: str | None = None) -> Identity:
        """Somebody at a host, by its address."""
        paths = {each: self._directory / f"{name}.{each}" for each in ("csr", "key", "pem", "ext")}
        paths["ext"].write_text(f"subjectAltName=IP:{host}\n")
        self._openssl(
            *("req", *EC_KEY, "-subj", f"/CN={name}", "-keyout", paths["key"]),
            *(("-nodes",) if password is None else ("-passout", f"pass:{password}")),
            *("-out", paths["csr"]),
        )
        self._openssl(
            *("x509", "-req", "-in", paths["csr"], "-CA", self.certificate, "-CAkey", self._key),
            *("-CAcreateserial", "-days", "2", "-extfile", paths["ext"], "-out", paths["pem"]),
        )
        return Identity(paths["pem"], paths["key"])

    def _openssl(self, *arguments: object) -> None:
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False, text=True)
        assert done.returncode == 0, done.stderr
