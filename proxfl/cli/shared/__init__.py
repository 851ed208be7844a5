"""What several commands share: options, arguments, results on a terminal."""
