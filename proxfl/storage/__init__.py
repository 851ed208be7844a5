"""What lies on a disk: whole files, checkpoints, exported models."""
