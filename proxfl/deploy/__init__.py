"""The same algorithms over real sites: Flower carries the messages, each site keeps its data."""
