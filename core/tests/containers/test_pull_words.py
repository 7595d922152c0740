"""What is shown of a pull that is held up."""

import pytest

from starforge.containers.pulls import leave_out_ports


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("read udp 10.213.5.2:55480->10.0.0.1:53: i/o timeout", "read udp 10.0.0.1:53: i/o timeout"),
        ("read tcp [fd00::2]:40122->[fd00::1]:443: reset", "read tcp [fd00::1]:443: reset"),
        ("toomanyrequests: slow down", "toomanyrequests: slow down"),
    ],
)
def test_the_same_trouble_reads_the_same_at_each_try(said: str, shown: str) -> None:
    assert leave_out_ports(said) == shown
