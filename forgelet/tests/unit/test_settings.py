"""What a machine's environment says, and what it may not say."""

from pathlib import Path

import pytest

from starforge.containers.settings import GpuRuntime
from starforge.errors import ProjectError
from starforge_forgelet.settings import load_settings


def test_a_machine_that_is_told_nothing_finds_its_own_gpus_and_keeps_its_state_at_home() -> None:
    settings = load_settings({})
    assert settings.state_dir == Path.home() / ".starforge-forgelet"
    assert (settings.gpu_runtime, settings.gpu_count) == (GpuRuntime.NVIDIA, 0)
    assert (settings.storage_root, settings.legacy_token) == (None, None)
    assert settings.docker_socket == Path("/var/run/docker.sock")


def test_what_is_told_is_taken() -> None:
    settings = load_settings(
        {
            "FORGE_STORAGE_ROOT": "/srv/starforge",
            "FORGE_LOCAL_GPU_COUNT": "8",
            "FORGE_NODE_STATE_DIR": "~/elsewhere",
            "FORGE_GPU_RUNTIME": "cdi",
            "FORGE_NODE_TOKEN": "legacy-s3cret",
        }
    )
    assert (settings.storage_root, settings.gpu_count) == (Path("/srv/starforge"), 8)
    assert (settings.state_dir, settings.gpu_runtime) == (Path.home() / "elsewhere", GpuRuntime.CDI)
    assert settings.legacy_token is not None
    assert settings.legacy_token.reveal() == "legacy-s3cret"
    assert "legacy-s3cret" not in repr(settings)


def test_every_fault_is_told_at_once_with_its_variable() -> None:
    with pytest.raises(ProjectError, match="3 settings cannot be used") as refused:
        load_settings({"FORGE_LOCAL_GPU_COUNT": "8.0", "FORGE_GPU_RUNTIME": "rocm", "FORGE_STORAGE_ROOT": "srv"})
    for name in ("FORGE_LOCAL_GPU_COUNT is '8.0'", "FORGE_GPU_RUNTIME is 'rocm'", "FORGE_STORAGE_ROOT is 'srv'"):
        assert name in refused.value.why


@pytest.mark.parametrize("count", ["-1", "65", "\u0665", "1e1", "all", "9999"])
def test_a_number_of_gpus_that_no_machine_has_is_refused(count: str) -> None:
    with pytest.raises(ProjectError, match="a setting cannot be used"):
        load_settings({"FORGE_LOCAL_GPU_COUNT": count})
