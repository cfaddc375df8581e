"""The command line, run in this process."""

from gpukfl.cli import main


def run(capsys, *arguments):
    """Exit status, output and errors."""
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err
