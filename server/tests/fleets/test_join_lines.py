"""The lines that an administrator pastes on a machine, character by character."""

import shlex

from starforge_console.fleets.join_lines import build_checked_line, build_join_lines


def test_the_lines_hold_the_consoles_address_the_fleet_and_the_token_in_the_environment() -> None:
    given, names = "FORGE_FLEET=lab FORGE_JOIN_TOKEN=sfj_abc", "FORGE_FLEET,FORGE_JOIN_TOKEN"
    assert build_join_lines("https://forge.corp/", "lab", "sfj_abc") == {
        "curl": f"curl -fsSL https://forge.corp/install.sh | {given} sh",
        "wget": f"wget -nv -O- https://forge.corp/install.sh | {given} sh",
        "sudo": f"curl -fsSL https://forge.corp/install.sh | {given} sudo --preserve-env={names} sh",
    }


def test_the_line_for_a_private_ca_runs_nothing_but_the_script_whose_digest_it_names() -> None:
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert build_checked_line("https://forge.corp", "lab", "sfj_abc", "abc") == (
        f"curl -fsSLk -o install.sh https://forge.corp/install.sh && echo '{digest}  install.sh' | sha256sum -c -"
        " && FORGE_FLEET=lab FORGE_JOIN_TOKEN=sfj_abc sh install.sh"
    )


def test_an_address_with_signs_of_the_shell_in_it_stays_one_word() -> None:
    address = "https://forge.corp/a b;reboot"
    line = build_join_lines(address, "lab", "sfj_abc")["curl"]
    assert f"{address}/install.sh" in shlex.split(line)
