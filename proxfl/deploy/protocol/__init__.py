"""What server and sites say to each other, as bytes, and the checks before any of it is used."""
