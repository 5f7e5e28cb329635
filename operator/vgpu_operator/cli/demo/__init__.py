"""``vgpu demo``: the whole protocol on a local cluster, narrated and checked."""
