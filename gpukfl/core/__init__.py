"""Arrays, types, places, memory and results, which all other layers use."""
