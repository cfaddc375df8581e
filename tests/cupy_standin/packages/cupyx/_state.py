"""What ``errstate`` sets."""

STATE = {"linalg": "ignore"}
