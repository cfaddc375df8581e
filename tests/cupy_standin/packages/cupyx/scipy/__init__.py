"""The modules that the library uses."""
