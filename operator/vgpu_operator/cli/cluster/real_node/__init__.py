"""A real node on this machine: containerd and a kubelet, beside a local control plane.

``node.RealNode`` is what others use. Everything runs in namespaces of its own
(``namespaces``), so that its end leaves no process and no mount behind.
"""
