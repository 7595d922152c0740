"""Listings as machines print them; those in `listings/` were observed, or composed of what was."""

import json
from pathlib import Path
from typing import Any

import pytest

from starforge.containers.gpu_cards import Card, ErrorCode, Listing, Why
from starforge.containers.gpu_listing import decode_listing, read_capture
from starforge.hardware.series import find_series

FOLDER = Path(__file__).with_name("listings")
CASES: list[dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
ONE = "GPU-7ed352c2-30e7-91b9-a8d4-2760ea2edd4c"
TWO = "GPU-95d2164f-7843-6bb9-1f32-8c17f95b596a"


def show(card: Card) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.uuid,
        "series": find_series(card.name),
        "usable": card.why is None,
        "why": card.why.value if card.why else None,
        "memory_mib": card.memory_mib,
    }


def whys(text: str) -> dict[str | None, Why | None]:
    return {card.uuid: card.why for card in read_capture(text).cards}


def codes(listing: Listing) -> list[str]:
    return [error.code.value for error in listing.errors]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_each_listing_shows_the_gpus_that_are_there_and_the_errors_that_it_tells(case: dict[str, Any]) -> None:
    listing = read_capture(decode_listing((FOLDER / case["file"]).read_bytes()))
    assert codes(listing) == case["errors"]
    shown = [show(card) for card in listing.cards]
    assert [{key: card[key] for key in wanted} for card, wanted in zip(shown, case["cards"], strict=True)] == case[
        "cards"
    ]


def test_columns_are_read_by_their_header_in_any_order() -> None:
    text = (
        "memory.total [MiB], name, pci.bus_id, mig.mode.current, uuid, index\n"
        f"81559 MiB, NVIDIA H100 PCIe, 00000000:86:00.0, Enabled, {ONE}, 3\n"
        f"81559 MiB, NVIDIA H100 PCIe, 00000000:87:00.0, [N/A], {TWO}, 4\n"
    )
    first, second = read_capture(text).cards
    assert (first.index, first.uuid, first.memory_mib, first.slot) == (3, ONE, 81559, "00000000:86:00.0")
    assert (first.why, second.why) == (Why.MIG_ENABLED, None)


def test_persistence_mode_is_not_taken_for_mig_where_no_header_tells_them_apart() -> None:
    assert whys(f"0, {ONE}, NVIDIA L4, 23034 MiB, Enabled, P8\n") == {ONE: None}


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}, 0, 00000000:86:00.0, NVIDIA L4, 23034\n",
        f"0, NVIDIA L4, {ONE}, 23034 MiB, 12 MiB, 40\n",
        f"NVIDIA L4, {ONE}, 0, 23034 MiB\n",
        f'"0","{ONE}","NVIDIA L4","23034 MiB"\n',
        f"0;{ONE};NVIDIA L4;23034 MiB\n",
    ],
)
def test_without_a_header_a_cell_is_what_it_can_only_be(text: str) -> None:
    (card,) = read_capture(text).cards
    assert (card.index, card.uuid, card.name, card.memory_mib) == (0, ONE, "NVIDIA L4", 23034)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("index, name, memory.total [MiB]\n0, NVIDIA L4, 23034 MiB\n", "uuid"),
        ("name\nNVIDIA L4\n", "index, uuid"),
        ("0, NVIDIA L4, 23034 MiB\n", "uuid"),
        ("NVIDIA L4, 23034 MiB\n", "uuid"),
    ],
)
def test_a_listing_without_uuids_shows_no_gpu_and_names_what_it_lacks(text: str, column: str) -> None:
    listing = read_capture(text)
    assert (listing.cards, codes(listing)) == ((), ["missing_columns"])
    assert f"lacks {column};" in listing.errors[0].message


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("[GPU requires reset]", Why.REQUIRES_RESET),
        ("[Unknown Error]", Why.ERR),
        ("ERR!", Why.ERR),
        ("[N/A]", None),
        ("[Not Supported]", None),
    ],
)
def test_a_faulty_gpu_is_left_out_alone_and_what_is_not_supported_is_no_fault(cell: str, why: Why | None) -> None:
    text = f"0, {ONE}, NVIDIA A40, {cell}\n1, {TWO}, NVIDIA A40, 46068 MiB\n"
    assert whys(text) == {ONE: why, TWO: None}


@pytest.mark.parametrize(
    "text",
    [
        f"GPU 0: NVIDIA L4 (UUID: {ONE})\nGPU 1: NVIDIA L4 (UUID: GPU-95d2",
        f"index, uuid, name, memory.total [MiB]\n0, {ONE}, NVIDIA L4, 23034 MiB\n1, GPU-95d2",
        f"index, uuid, name\n0, {ONE}, NVIDIA L4\n1, [Unknown Error], NVIDIA L4",
        f"0, {ONE}, NVIDIA L4, 23034 MiB\n1, [Unknown Error], NVIDIA L4, 23034 MiB",
    ],
)
def test_a_gpu_whose_line_is_cut_off_or_has_no_uuid_is_shown_as_one_that_cannot_be_used(text: str) -> None:
    listing = read_capture(text)
    assert [(card.index, card.uuid, card.why) for card in listing.cards] == [(0, ONE, None), (1, None, Why.ERR)]
    assert listing.errors == ()


def test_a_listing_that_was_shut_down_badly_is_a_whole_one() -> None:
    listing = read_capture(f"GPU 0: NVIDIA L4 (UUID: {ONE})\nFailed to properly shut down NVML: Unknown Error\n")
    assert (len(listing.cards), listing.errors) == (1, ())


def test_a_gpu_whose_values_say_that_it_is_lost_is_an_error_too() -> None:
    listing = read_capture(f"0, {ONE}, [GPU is lost], [GPU is lost]\n1, {TWO}, NVIDIA A40, 46068 MiB\n")
    assert [card.why for card in listing.cards] == [Why.ERR, None]
    assert codes(listing) == ["gpu_lost"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("ecc.errors.uncorrected.volatile.total", "3", Why.QUARANTINED),
        ("ecc.errors.uncorrected.volatile.total", "0", None),
        ("ecc.errors.uncorrected.volatile.total", "[N/A]", None),
        ("remapped_rows.failure", "Yes", Why.QUARANTINED),
        ("remapped_rows.pending", "Yes", Why.REQUIRES_RESET),
        ("remapped_rows.pending", "No", None),
        ("retired_pages.pending", "Yes", Why.REQUIRES_RESET),
        ("reset_status.reset_required", "Yes", Why.REQUIRES_RESET),
        ("reset_status.drain_and_reset_recommended", "Yes", Why.REQUIRES_RESET),
        ("gpu_recovery_action", "Reset", Why.REQUIRES_RESET),
        ("gpu_recovery_action", "Drain P2P", Why.QUARANTINED),
        ("gpu_recovery_action", "None", None),
        ("mig.mode.current", "[Insufficient Permissions]", Why.QUARANTINED),
        ("mig.mode.current", "Disabled", None),
    ],
)
def test_what_the_driver_says_of_a_gpus_health_decides(field: str, value: str, why: Why | None) -> None:
    assert whys(f"index, uuid, name, {field}\n0, {ONE}, NVIDIA A40, {value}\n") == {ONE: why}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "Unable to determine the device handle for gpu 0000:AF:00.0: Unknown Error",
            "gpu_handle",
            "card 0000:AF:00.0",
        ),
        ("Unable to determine the device handle for GPU0000:AF:00.0: Unknown Error", "gpu_handle", "card 0000:AF:00.0"),
        ("Unable to determine the device handle for GPU0: 0000:03:00.0: Not Found", "gpu_handle", "(Not Found)"),
        ("Unable to determine the device handle for GPU 1: Unknown Error", "gpu_handle", "GPU 1 does not answer"),
        ("Unable to determine the device handle for GPU3: 0000:0A:00.0: GPU is lost.", "gpu_lost", "card 0000:0A:00.0"),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.171",
            "nvml_mismatch",
            "",
        ),
        ("Failed to initialize NVML: Unknown Error", "nvml_unknown", ""),
        ("Failed to initialize NVML: Insufficient Permissions", "nvml_unknown", ""),
        ("Failed to initialize NVML: Driver Not Loaded", "driver_not_loaded", ""),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure", "nvml_library", ""),
        ("Failed to initialize NVML: could not load NVML library", "nvml_library", ""),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with\nthe NVIDIA driver. Make sure",
            "driver_not_loaded",
            "",
        ),
        ("bash: nvidia-smi: command not found", "driver_not_loaded", "no nvidia-smi"),
        ("No devices were found", "no_devices", ""),
        ("No devices found.", "no_devices", ""),
        ("index, uuid, name\n", "no_devices", "a header"),
        ("timeout: sending signal TERM to command 'nvidia-smi'", "probe_timeout", ""),
        ("\n", "probe_timeout", ""),
        ("Terminated", "probe_timeout", ""),
    ],
)
def test_a_sentence_in_place_of_gpus_is_one_error(text: str, code: str, words: str) -> None:
    listing = read_capture(text)
    assert (listing.cards, codes(listing)) == ((), [code])
    assert words in listing.errors[0].message


def test_a_gpu_that_cannot_be_asked_takes_no_other_along_also_when_line_ends_are_lost() -> None:
    text = (
        f"GPU 0: NVIDIA A40 (UUID: {ONE}) Unable to determine the device handle for GPU1: 0000:0A:00.0: Unknown Error"
        f" GPU 2: NVIDIA A40 (UUID: {TWO})"
    )
    listing = read_capture(text)
    assert [(card.index, card.uuid) for card in listing.cards] == [(0, ONE), (2, TWO)]
    assert [(error.code, error.bus) for error in listing.errors] == [(ErrorCode.GPU_HANDLE, "0000:0A:00.0")]


def test_parts_are_no_gpus_in_the_new_form_either() -> None:
    text = (
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
        f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {TWO})\n"
    )
    assert whys(text) == {ONE: Why.MIG_ENABLED, TWO: None}
    assert whys(text.replace("\n", " ")) == {ONE: Why.MIG_ENABLED, TWO: None}


def test_one_machine_listed_twice_shows_each_gpu_once() -> None:
    line = f"GPU 0: NVIDIA L4 (UUID: {ONE})\n"
    listing = read_capture(line + f"0, {ONE}, NVIDIA L4, 23034 MiB\n" + line)
    assert [(card.uuid, card.memory_mib) for card in listing.cards] == [(ONE, 23034)]
    assert listing.errors == ()


TABLE = """\
|===============================+======================+======================|
|   0  NVIDIA A40          On   | 00000000:1A:00.0 Off |                    {ecc} |
|  0%   26C    P8    12W / 300W |      0MiB / 46068MiB |      0%      Default |
|                               |                      |             {mig} |
+-------------------------------+----------------------+----------------------+
| Processes:                                                                  |
|    0   N/A  N/A      1234      C   python                           500MiB |
+-----------------------------------------------------------------------------+
"""


@pytest.mark.parametrize(
    ("ecc", "mig", "why"),
    [("0", "Disabled", None), ("0", "Enabled ", Why.MIG_ENABLED), ("2", "Disabled", Why.QUARANTINED)],
)
def test_the_table_tells_of_mig_and_memory_errors(ecc: str, mig: str, why: Why | None) -> None:
    (card,) = read_capture(TABLE.format(ecc=ecc, mig=mig)).cards
    assert (card.index, card.name, card.memory_mib, card.why) == (0, "NVIDIA A40", 46068, why)


def test_a_table_beside_a_listing_adds_what_it_knows_of_the_same_gpu() -> None:
    text = TABLE.format(ecc="0", mig="Enabled ") + f"GPU 0: NVIDIA A40 (UUID: {ONE})\n"
    (card,) = read_capture(text).cards
    assert (card.uuid, card.memory_mib, card.why) == (ONE, 46068, Why.MIG_ENABLED)


def test_text_of_another_shell_is_read_and_escapes_are_dropped() -> None:
    text = f"\x1b[32mGPU 0: NVIDIA L4 (UUID: {ONE})\x1b[0m\r\n"
    assert [card.uuid for card in read_capture(decode_listing(text.encode("utf-16"))).cards] == [ONE]
    assert [card.uuid for card in read_capture(decode_listing(text.encode("utf-8-sig"))).cards] == [ONE]


def test_what_no_nvidia_smi_says_is_neither_a_gpu_nor_an_error() -> None:
    listing = read_capture("hello, world\nCopyright (c) 2022, NVIDIA CORPORATION. All rights reserved.\n")
    assert (listing.cards, listing.errors) == ((), ())
    assert len(listing.unread) == 2


@pytest.mark.parametrize(
    "line",
    [
        "x" * 200_000,
        f"1, {TWO}, " + "x" * 200_000,
        f"{'9' * 5000}, NVIDIA L4, [Unknown Error]",
        f"GPU {'9' * 5000}: NVIDIA L4 (UUID: {TWO})",
        f"| {'9' * 5000}  NVIDIA L4  On | 00000000:1A:00.0 Off | 0 |",
        "\u00b2, NVIDIA L4, [Unknown Error]",
    ],
)
def test_a_line_that_no_driver_prints_spoils_no_other_and_is_told_in_short(line: str) -> None:
    listing = read_capture(f"0, {ONE}, NVIDIA L4, 23034 MiB\n{line}\n")
    assert [(card.uuid, card.why) for card in listing.cards] == [(ONE, None)]
    assert [len(said) <= 200 for said in listing.unread] == [True]


def test_numbers_that_are_none_are_not_known() -> None:
    text = (
        f"uuid, index, name, memory.total, ecc.errors.uncorrected.volatile.total\n{ONE}, \u00b2, L4, \u00b2, \u00b2\n"
    )
    (card,) = read_capture(text).cards
    assert (card.index, card.memory_mib, card.why) == (None, None, None)
