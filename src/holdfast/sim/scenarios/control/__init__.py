"""The control plane under every fault: production participants, recipes, state files and authority."""
