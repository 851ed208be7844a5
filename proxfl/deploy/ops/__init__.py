"""Keys, processes, files and doors: what keeps a deployment running."""
