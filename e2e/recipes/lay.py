"""Lays a file of settings upon the one that its `defaults` names, as NeMo RL's loader does: `lay.py SETTINGS`."""

import json
import sys

from omegaconf import OmegaConf  # type: ignore[import-not-found]  # in the Python that runs this, not here


def main() -> None:
    settings = OmegaConf.load(sys.argv[1])
    merged = OmegaConf.merge(OmegaConf.load(settings.pop("defaults")), settings)
    OmegaConf.register_new_resolver("mul", lambda left, right: left * right)
    json.dump(OmegaConf.to_container(merged, resolve=True), sys.stdout)


if __name__ == "__main__":
    main()
