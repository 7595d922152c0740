import pytest

from starforge.hardware.series import find_series


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("nvidia  geforce rtx 4090", "rtx-4090"),
        ("Tesla T4", "t4"),
    ],
)
def test_a_known_name_has_its_series(name: str, series: str | None) -> None:
    assert find_series(name) == series


@pytest.mark.parametrize("name", ["NVIDIA H100X", "NVIDIA GeForce RTX 4090 Laptop GPU", "Orin (nvgpu)", "", "80GB"])
def test_a_name_that_is_not_listed_has_none(name: str) -> None:
    assert find_series(name) is None
