"""Who demonstrates in a chain: a model with its method, or, by name, one who asks no model."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from capex import models, worlds
from capex.method.context import Demonstrator
from capex.method.demonstrator import ModelDemonstrator
from capex.method.presets import MethodSettings
from capex.models import ChatSettings, Model

# Those who ask no model, with where they are. Imported only when one is asked for: on a model's way
# nothing imports what a person did.
WITHOUT_MODEL = {"expert": "capex.campaign.expert:Expert", "human": "capex.operators.human:Person"}


STUDENT = "student"  # what a campaign of trained policies names instead of a model

# Who demonstrates in the chains of a campaign: a model by name or itself, the name of one who asks
# no model, or a demonstrator for each arm.
Asked = str | Model | Mapping[str, Demonstrator]


def answering(asked: Asked, chat: ChatSettings | None) -> Asked:
    """Who is asked, a model made from its name."""
    if isinstance(asked, str) and asked not in WITHOUT_MODEL:
        return models.make(asked, chat)
    return asked


def demonstrator(asked: Asked, method: MethodSettings) -> Demonstrator:
    """Who demonstrates in a chain."""
    if isinstance(asked, Mapping):
        return asked[method.name]
    if not isinstance(asked, str):
        return ModelDemonstrator(asked, method)
    module, _, name = WITHOUT_MODEL[asked].partition(":")
    made: Demonstrator = getattr(import_module(module), name)()
    return made


def require_offer(name: str, world: str) -> None:
    """Refuse a world that has no expert, or no human demonstrations."""
    {"expert": worlds.expert, "human": worlds.human}[name](world)


def method_without_model(name: str) -> MethodSettings:
    """The settings of a chain that asks no model: nothing to spend, nothing to remember."""
    return MethodSettings(name, memory="none", episode_usd=None)
