"""What Ctrl-C does, at a call of one's choice."""


def interrupt(monkeypatch, owner, name, after):
    """Make a method of `owner` raise as Ctrl-C would, once, after so many calls."""
    method, calls = getattr(owner, name), [0]

    def interrupted(*args, **kwargs):
        calls[0] += 1
        if calls[0] == after + 1:
            raise KeyboardInterrupt
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)
    return calls
