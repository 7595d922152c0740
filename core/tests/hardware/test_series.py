import pytest

from starforge.hardware.series import FAMILIES, SERIES_BY_NAME, SeriesRegistry, find_series, matches


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H100", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A800-SXM4-80GB", "a800-80gb"),
        ("NVIDIA A800", "a800-80gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("nvidia  geforce rtx 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 5000 Blackwell", "rtx-pro-5000"),
        ("Quadro RTX 6000", "quadro-rtx-6000"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
    ],
)
def test_a_known_name_has_its_series(name: str, series: str) -> None:
    assert find_series(name) == series


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100X",
        "NVIDIA H100L-2-24C",
        "GRID T4-16C",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "Orin (nvgpu)",
        "NVIDIA Thor",
        "Tesla V100-SXM2...",
        "",
        "80GB",
    ],
)
def test_a_name_that_is_not_listed_has_none(name: str) -> None:
    assert find_series(name) is None


def test_a_family_is_met_by_each_of_its_forms_and_by_no_other_series() -> None:
    assert matches("h100", "h100-sxm")
    assert matches("h100", "h100-pcie")
    assert matches("a100-80gb", "a100-pcie-80gb")
    assert not matches("a100-80gb", "a100-pcie-40gb")
    assert not matches("h100", "h200")
    assert not matches("b200", "gb200")
    assert not matches("h20", "h200")


def test_a_form_is_met_by_itself_alone() -> None:
    assert matches("h100-sxm", "h100-sxm")
    assert not matches("h100-sxm", "h100-pcie")
    assert not matches("h100-sxm", "h100")


def test_a_series_that_no_table_knows_is_met_by_the_same_word() -> None:
    assert matches("our-card", "our-card")


def test_no_wish_takes_any_gpu_and_an_unknown_gpu_meets_no_wish() -> None:
    assert matches(None, None)
    assert matches(None, "h20")
    assert not matches("h20", None)


def test_every_member_of_a_family_is_the_series_of_some_name() -> None:
    assert {member for members in FAMILIES.values() for member in members} <= set(SERIES_BY_NAME.values())


def test_names_from_outside_are_known_beside_the_built_in_ones() -> None:
    registry = SeriesRegistry({"NVIDIA Thing 9000": "thing", "NVIDIA H100 Special": "h100-sxm"})
    assert registry.find("thing  9000") == "thing"
    assert registry.matches("h100", registry.find("NVIDIA H100 Special"))
    assert registry.find("NVIDIA L4") == "l4"
    assert registry.families["h100"] == FAMILIES["h100"]
    assert find_series("NVIDIA Thing 9000") is None


def test_a_built_in_name_keeps_its_series() -> None:
    assert SeriesRegistry({"NVIDIA H20": "h200"}).find("NVIDIA H20") == "h20"
