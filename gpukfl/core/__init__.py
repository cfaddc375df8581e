"""Arrays, their types, places, memory and results: what every layer above stands on."""
