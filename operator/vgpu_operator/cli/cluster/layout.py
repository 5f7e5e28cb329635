"""Where a local cluster keeps its files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgpu_operator.cli.cluster import certificates, kubeconfig

SERVICE_RANGE = "10.96.0.0/16"
"""Addresses of Services; the first one is the API server's own."""

_SERVER_NAMES = (
    "127.0.0.1",
    "localhost",
    "::1",
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The cluster's folder.

    root/
      pki/          certificates: authority, server, administrator; service account keys
      kubeconfig/   one file for each user
      config/       audit policy, scheduler configurations
      etcd/         the database
      logs/         one file for each component, and the audit log
    """

    root: Path

    @property
    def ca_file(self) -> Path:
        """Return the certificate that all others are signed with."""
        return self.root / "pki/ca.crt"

    @property
    def front_proxy_ca(self) -> Path:
        """Return the authority of API servers that others stand behind: none here.

        One of its own, so that no user's certificate can pass for a proxy's.
        """
        return self.root / "pki/front-proxy-ca.crt"

    @property
    def server_certificate(self) -> Path:
        """Return the certificate that every component serves with."""
        return self.root / "pki/server.crt"

    @property
    def server_key(self) -> Path:
        """Return the key of the server certificate."""
        return self.root / "pki/server.key"

    @property
    def admin_certificate(self) -> Path:
        """Return the certificate of the user that may do everything."""
        return self.root / "pki/admin.crt"

    @property
    def admin_key(self) -> Path:
        """Return the key of that user."""
        return self.root / "pki/admin.key"

    @property
    def service_account_key(self) -> Path:
        """Return the key that signs service account tokens."""
        return self.root / "pki/service-account.key"

    @property
    def service_account_public_key(self) -> Path:
        """Return the key that checks service account tokens."""
        return self.root / "pki/service-account.pub"

    @property
    def etcd_data(self) -> Path:
        """Return the folder of the database."""
        return self.root / "etcd"

    @property
    def logs(self) -> Path:
        """Return the folder of all logs."""
        return self.root / "logs"

    @property
    def audit_log(self) -> Path:
        """Return the file that the API server writes one JSON line a request to."""
        return self.logs / "audit.jsonl"

    @property
    def audit_policy(self) -> Path:
        """Return the file that says what is audited."""
        return self.root / "config/audit-policy.json"

    def log_file(self, component: str) -> Path:
        """Return where a component writes."""
        return self.logs / f"{component}.log"

    def kubeconfig_file(self, name: str) -> Path:
        """Return where a user's kubeconfig lies."""
        return self.root / f"kubeconfig/{name}.yaml"

    def scheduler_config(self, component: str) -> Path:
        """Return where a scheduler's configuration lies."""
        return self.root / f"config/{component}.yaml"

    def write_certificates(
        self,
        authority: certificates.CertificateAuthority,
        *,
        front_proxy: certificates.CertificateAuthority,
    ) -> None:
        """Write all that the components need to know and to trust each other."""
        server = authority.issue_server(*_SERVER_NAMES)
        admin = authority.issue_client(kubeconfig.ADMIN_USER, [kubeconfig.ADMIN_GROUP])
        accounts = certificates.new_service_account_keys()
        files: Mapping[Path, bytes] = {
            self.ca_file: authority.certificate_pem,
            self.front_proxy_ca: front_proxy.certificate_pem,
            self.server_certificate: server.certificate_pem,
            self.server_key: server.key_pem,
            self.admin_certificate: admin.certificate_pem,
            self.admin_key: admin.key_pem,
            self.service_account_key: accounts.private_pem,
            self.service_account_public_key: accounts.public_pem,
        }
        for path, content in files.items():
            write_private(path, content)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user may read, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # A file that is there already would keep its own, maybe wider, mode.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
