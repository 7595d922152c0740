"""What a diagnosis says, and what it may be told of the exit beside the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

RULES_VERSION: Final = 4
"""Counts up with every change of a rule that may change an answer, so that kept answers are made anew."""


class Category(StrEnum):
    """The kinds of failures, a closed list; each has its section in the documentation."""

    GPU_OOM = "gpu_oom"
    HOST_OOM = "host_oom"
    SHM_TOO_SMALL = "shm_too_small"
    DISK_FULL = "disk_full"
    READ_ONLY_FS = "read_only_fs"
    STORAGE_IO = "storage_io"
    FILE_CORRUPT = "file_corrupt"
    RESOURCE_LIMIT = "resource_limit"
    PERMISSION = "permission"
    PATH_MISSING = "path_missing"
    MISSING_MODULE = "missing_module"
    BINARY_MISMATCH = "binary_mismatch"
    VERSION_MISMATCH = "version_mismatch"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    DRIVER_TOO_OLD = "driver_too_old"
    GPU_NOT_VISIBLE = "gpu_not_visible"
    GPU_UNSUPPORTED = "gpu_unsupported"
    CUDA_ILLEGAL_ACCESS = "cuda_illegal_access"
    GPU_HARDWARE = "gpu_hardware"
    GPU_FABRIC = "gpu_fabric"
    NATIVE_CRASH = "native_crash"
    TRITON_RESOURCES = "triton_resources"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_SYSTEM = "nccl_system"
    NCCL_NETWORK = "nccl_network"
    NETWORK = "network"
    PROXY = "proxy"
    TLS = "tls"
    PORT_IN_USE = "port_in_use"
    PORT_NOT_ALLOWED = "port_not_allowed"
    HF_AUTH = "hf_auth"
    HF_GATED = "hf_gated"
    HF_NOT_FOUND = "hf_not_found"
    TRACKING_SERVICE = "tracking_service"
    CONFIG_KEY = "config_key"
    CODE_ERROR = "code_error"
    DATASET_EMPTY = "dataset_empty"
    DATASET_SCHEMA = "dataset_schema"
    TOKENIZER_VOCAB = "tokenizer_vocab"
    DEEPSPEED_CONFIG = "deepspeed_config"
    VLLM_KV_CACHE = "vllm_kv_cache"
    RAY_ACTOR_DIED = "ray_actor_died"
    RAY_OBJECT_STORE = "ray_object_store"
    NAN_LOSS = "nan_loss"
    FRAMEWORK_BUG = "framework_bug"
    KILLED_UNKNOWN = "killed_unknown"
    STOPPED = "stopped"
    PLATFORM_DUPLICATE_SUBMIT = "platform_duplicate_submit"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure a diagnosis is. `low`: the log names this, and says itself that it may be the consequence of more."""

    SURE = "sure"
    LIKELY = "likely"
    LOW = "low"
    UNKNOWN = "unknown"


class Ending(StrEnum):
    """What the platform itself knows of how an attempt ended, where that settles or colours the answer."""

    STOPPED = "stopped"
    TIME_LIMIT = "time_limit"
    OUT_OF_MEMORY = "out_of_memory"
    GPU_LOST = "gpu_lost"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownExit:
    """What is known of the exit: nothing of it needs to be.

    `code` is the exit code, 128 + n after signal n. `kernel_killed`: whether the kernel's counter of kills for memory
    moved; None where nobody counted. `ending` is what the platform has settled already.
    """

    code: int | None = None
    kernel_killed: bool | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A line of the log: its text, its number (from 1), and where its bytes begin."""

    text: str
    number: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a training failed.

    `kind` names the rule, whose texts have `facts` filled in. `spot` is the line that says it, None where only the
    exit does. `rank` is the process that failed first, where the log tells. `retryable`: the same job can succeed as
    it is, on another machine or at another time.
    """

    kind: str
    category: Category
    summary: str
    advice: str
    confidence: Confidence
    spot: Spot | None = None
    rank: int | None = None
    retryable: bool = False
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_diagnosed(self) -> bool:
        """Whether a cause is named; otherwise `spot` is at most the last error, which no rule knows."""
        return self.category is not Category.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as JSON with a stable schema."""
        return {
            "category": self.category.value,
            "kind": self.kind,
            "summary": self.summary,
            "root_cause_line": None if self.spot is None else self.spot.text,
            "line": None if self.spot is None else self.spot.number,
            "byte_offset": None if self.spot is None else self.spot.offset,
            "advice": self.advice,
            "confidence": self.confidence.value,
            "suspect_rank": self.rank,
            "retryable": self.retryable,
            "facts": dict(self.facts),
            "rules_version": RULES_VERSION,
        }
