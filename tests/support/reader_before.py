"""What a page takes for granted: typed before it, on the cluster that every page starts with.

Also here: the words in capitals that are the reader's to replace.
"""

from support import reader

REPLACED = {
    "PLUGIN_NAMESPACE": "vgpu-system",
    "PLUGIN_POD": "train",
    "SCHEDULER": "hami-scheduler",
    "NAMESPACE": "vgpu-system",
    "RELEASE": "vgpu",
    "NODE": "gpu-1",
    "POD": "train",
}
"""Longer words first: ``PLUGIN_POD`` holds ``POD``."""

_THE_READMES_POD = """
kubectl apply -f train.yaml
"""

_AN_URGENT_POD = """
cat > urgent.yaml <<'EOF'
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: hurry}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: answer-now}
spec:
  priorityClassName: hurry
  containers:
    - name: main
      image: none
      resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 20000}}
EOF
"""

_SOME_VALUES = """
printf 'operator: {image: {registry: registry.example.com}}\\n' > values.yaml
"""

_A_CHART = """
mkdir -p {name}-chart/templates
printf 'apiVersion: v2\\nname: {name}\\nversion: 2.10.0\\n' > {name}-chart/Chart.yaml
helm install {name} ./{name}-chart --namespace kube-system --set global.imageTag=v2.10.0
kubectl --namespace kube-system create deployment {deployment} --image=none
"""

_A_RELEASE = """
helm install vgpu helm/vgpu-operator --namespace vgpu-system --create-namespace \\
    --set operator.image.registry=registry.example.com
"""

_A_CASE_FOR_A_RUNBOOK = """
kubectl create namespace vgpu-system --dry-run=client -o yaml | kubectl apply -f -
kubectl --namespace vgpu-system apply -f train.yaml
kubectl --namespace vgpu-system create -f - <<'EOF'
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: hami-scheduler}
EOF
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=webhook \\
    -keyout webhook.key -out webhook.crt
kubectl --namespace vgpu-system create secret generic vgpu-vgpu-operator-scheduler-tls \\
    --from-file=tls.crt=webhook.crt --dry-run=client -o yaml | kubectl apply -f -
kubectl --namespace vgpu-system wait --for=condition=Ready pod/train
"""

_BEFORE = {
    "docs/how-to/watch-trends.md": _A_RELEASE,
    "docs/install.md": _THE_READMES_POD + _SOME_VALUES,
    "docs/kind.md": _THE_READMES_POD,
    "docs/migrate-from-k8s-vgpu-scheduler.md": (
        _A_CHART.format(name="vgpu", deployment="vgpu-scheduler")
        + """
kubectl create -f - <<'EOF'
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: vgpu-webhook}
EOF
"""
    ),
    "docs/uninstall.md": _A_RELEASE,
    "docs/simulate.md": "kubectl get nodes,pods -A -o yaml > objects.yaml" + _AN_URGENT_POD,
    "docs/upgrade-from-hami.md": _A_CHART.format(name="hami", deployment="hami-scheduler"),
}


def before(page: str) -> str:
    """Return what is typed before a page; empty where nothing is."""
    if page.startswith("docs/runbooks/"):
        return _A_CASE_FOR_A_RUNBOOK
    return _BEFORE.get(page, "")


def replaced(text: str) -> str:
    """Put the test's words for those in capitals.

    >>> replaced("kubectl -n NAMESPACE logs POD")
    'kubectl -n vgpu-system logs train'
    """
    for word, own in REPLACED.items():
        text = text.replace(word, own)
    return text


def readmes_pod() -> str:
    """Return the file that the README tells to save."""
    (pod,) = [block for block in reader.page_blocks("README.md") if block.words == "train.yaml"]
    return pod.text
