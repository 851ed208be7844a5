"""The command line: each command a module that loads its work only when it is run."""
