"""Times until an event: what a loss takes of them, who is compared, how models are scored."""
