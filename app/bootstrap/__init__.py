"""Builds the service from its settings: the only code below the API that reads them."""

from app.bootstrap.agents import Prompts
from app.bootstrap.cluster import cluster_problem
from app.bootstrap.providers import build_providers, default_model, provider_configs, secrets_of
from app.bootstrap.sandboxes import exposes_server
from app.bootstrap.service import Runtime, build, prepare_data_dir

__all__ = [
    "Prompts",
    "Runtime",
    "build",
    "build_providers",
    "cluster_problem",
    "default_model",
    "exposes_server",
    "prepare_data_dir",
    "provider_configs",
    "secrets_of",
]
