"""RegFeaL: settings, choice of law, strength and directions, and the estimators."""
