"""Builds the service from its settings: the only package that imports all others.

`service` assembles everything on top of `foundation`, which is opened first: `storage`, `sandboxes`, `providers`.
`agents` and `rules` turn settings into arguments of the runtime; `taking_up` resumes work after a restart.
"""

from app.bootstrap.agents import Prompts
from app.bootstrap.providers import build_providers, default_model, provider_configs, secrets_of
from app.bootstrap.sandboxes import exposes_server
from app.bootstrap.service import Runtime, build
from app.bootstrap.storage import prepare_data_dir

__all__ = [
    "Prompts",
    "Runtime",
    "build",
    "build_providers",
    "default_model",
    "exposes_server",
    "prepare_data_dir",
    "provider_configs",
    "secrets_of",
]
