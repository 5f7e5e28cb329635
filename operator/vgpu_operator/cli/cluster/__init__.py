"""A whole Kubernetes cluster on this machine, for the demo and for the tests.

``sources`` answers where a cluster comes from; ``control_plane`` is the one that
needs neither Docker nor a GPU. What runs on top of a cluster (the operator,
simulated nodes) is not here.
"""
