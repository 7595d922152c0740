"""What holds for every test: the closing line of a run, and property tests without a clock."""

from hypothesis import settings

pytest_plugins = ["tools.lastline"]

# Two cores shared with real engines make a per-example deadline a timed test, and no test here is timed.
settings.register_profile("starforge", deadline=None)
settings.load_profile("starforge")
