"""The device plugin of a real node: serves its kubelet, and keeps its cards registered."""
