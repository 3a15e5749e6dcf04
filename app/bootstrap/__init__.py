"""Builds the service from its settings: the only room that knows all others.

`service` puts the whole together, on a `foundation` of what is opened first: `storage`, `sandboxes`, `providers`.
`agents` and `rules` turn settings into what the runtime takes; `taking_up` sees to an earlier life of the server.
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
