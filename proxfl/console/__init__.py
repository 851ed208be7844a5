"""What a person at a terminal sees: progress, tables, and where else rounds are sent."""
