"""Tables of the results, a module for each method."""
