class Verify:
    """What app.Verify derives from."""


class Runner:
    """What app.Runner derives from."""
