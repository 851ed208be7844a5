"""Keys, processes and files: what keeps a deployment running."""
