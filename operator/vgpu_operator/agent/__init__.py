"""The node side, simulated: device plugins and kubelets of nodes that are objects only."""
