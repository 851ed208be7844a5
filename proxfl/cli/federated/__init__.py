"""The actions of `proxfl federate`, one per file."""
