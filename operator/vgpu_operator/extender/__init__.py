"""The HTTP server that kube-scheduler calls: loopback only, the side-car is the caller."""
