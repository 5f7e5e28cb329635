import datetime
from pathlib import Path

import pytest

from vgpu_operator.cli.cluster import certificates, flags, layout

FILES = layout.Layout(Path("/cluster"))
KUBECONFIG = Path("/cluster/kubeconfig/user.yaml")


def apiserver(*, service_accounts: bool = False, audit: bool = False) -> list[str]:
    return flags.kube_apiserver(
        FILES, port=6443, etcd_port=2379, service_accounts=service_accounts, audit=audit
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(apiserver(), id="kube-apiserver"),
        pytest.param(
            flags.kube_controller_manager(FILES, port=1, kubeconfig=KUBECONFIG),
            id="kube-controller-manager",
        ),
        pytest.param(
            flags.kube_scheduler(
                FILES, port=1, kubeconfig=KUBECONFIG, configuration=Path("/cluster/config/s.yaml")
            ),
            id="kube-scheduler",
        ),
    ],
)
def test_component_listens_on_loopback_only(arguments: list[str]) -> None:
    assert "--bind-address=127.0.0.1" in arguments


def test_etcd_listens_on_loopback_only() -> None:
    assert flags.etcd(FILES, client_port=2379, peer_port=2380) == [
        "etcd",
        "--data-dir=/cluster/etcd",
        "--client-url=http://127.0.0.1:2379",
        "--peer-url=http://127.0.0.1:2380",
    ]


def test_requests_are_authorized_by_roles_and_those_of_kubelets_by_their_node() -> None:
    assert "--authorization-mode=Node,RBAC" in apiserver()


def test_pods_need_no_service_account_where_nobody_makes_them() -> None:
    assert "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount" in apiserver(
        service_accounts=False
    )


def test_pods_get_service_accounts_where_a_controller_makes_them() -> None:
    assert "--disable-admission-plugins=TaintNodesByCondition" in apiserver(service_accounts=True)


def test_requests_are_noted_only_when_asked() -> None:
    assert not [item for item in apiserver(audit=False) if "audit" in item]
    assert "--audit-log-path=/cluster/logs/audit.jsonl" in apiserver(audit=True)


def test_nodes_without_kubelet_are_left_alone() -> None:
    arguments = flags.kube_controller_manager(FILES, port=1, kubeconfig=KUBECONFIG)

    assert "--controllers=*,-node-lifecycle-controller" in arguments


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    now = datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)
    files = layout.Layout(tmp_path)

    files.write_certificates(
        certificates.CertificateAuthority(now), front_proxy=certificates.CertificateAuthority(now)
    )

    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "pki").iterdir()}
    assert set(modes.values()) == {0o600}
    assert {"ca.crt", "server.key", "admin.key", "service-account.key"} <= set(modes)


def test_private_file_does_not_inherit_the_mode_of_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)

    layout.write_private(path, b"new")

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
