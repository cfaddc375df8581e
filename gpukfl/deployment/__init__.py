"""What is done with a fitted model: written to a file, read again, compressed."""
