"""RegFeaL: what is fitted, how law, strength and directions are chosen, and the estimators."""
