from core.tests.runner.conftest import attempt, runner_archive

__all__ = ["attempt", "runner_archive"]
