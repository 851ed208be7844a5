"""Methods made from another: accelerated, compressed, private, or telling their loss."""
