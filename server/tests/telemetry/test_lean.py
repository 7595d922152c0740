"""What a serving console does not import."""

import subprocess
import sys

_PROGRAM = """
import sys
from starforge_console.telemetry.lean import load_structlog
load_structlog()
from starforge_console import app
from starforge_console.settings.console import LogFormat
from starforge_console.telemetry.log import set_up_log
set_up_log(LogFormat.CONSOLE, "info")
import structlog
try:
    raise ValueError("on purpose")
except ValueError:
    structlog.get_logger().exception("it failed")
print("rich" in sys.modules, "pygments" in sys.modules)
import rich.console
print(rich.console.__name__)
"""


def test_a_console_logs_tracebacks_without_rich_and_leaves_it_to_those_who_want_it() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["False False", "rich.console"]
    assert "it failed" in done.stderr
    assert "ValueError: on purpose" in done.stderr
