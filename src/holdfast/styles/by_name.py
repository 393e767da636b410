"""Maps the names of the replication styles to the classes of their members."""

from typing import Final

from holdfast.execution.definition import Definition
from holdfast.model.errors import InvalidRequest
from holdfast.model.properties import REPLICATION_STYLE, Style, UnsupportedProperty
from holdfast.styles.active import Active
from holdfast.styles.app_controlled import AppControlled
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.cold import Cold
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import StylePorts
from holdfast.styles.stateless import Stateless
from holdfast.styles.warm import Warm

VOTING: Final = {"voting": "active_with_voting"}
"""Short names that people use."""
PASSIVE: Final = (Style.COLD_PASSIVE, Style.WARM_PASSIVE)


def style_named(name: str) -> Style:
    """Return the style for a name such as ``"warm_passive"``. Raises ``InvalidRequest``."""
    try:
        return Style[VOTING.get(name.lower(), name).upper()]
    except KeyError:
        known = ", ".join(style.name.lower() for style in Style if style is not Style.ACTIVE_WITH_VOTING)
        raise InvalidRequest(f"there is no style {name!r}; the styles are {known}") from None


def make_member(
    style: Style,
    definition: Definition,
    ports: StylePorts,
    config: StyleConfig,
    *,
    is_self_kept: bool = False,
) -> Cold | Warm | Active | Stateless:
    """Make the application of a member. *is_self_kept* means that the application keeps the group consistent.
    Raises :class:`UnsupportedProperty` for voting (FTC-131)."""
    if is_self_kept and style in PASSIVE:
        return AppControlled(definition, ports, CallObservers(definition.group, ports, config.slow_ns))
    match style:
        case Style.STATELESS:
            observers = CallObservers(definition.group, ports, config.slow_ns)
            return Stateless(definition, ports.clock, observers, ports.attempts, ports.fault)
        case Style.COLD_PASSIVE:
            return Cold(definition, ports, config)
        case Style.WARM_PASSIVE:
            return Warm(definition, ports, config)
        case Style.ACTIVE:
            return Active(definition, ports, config)
        case Style.ACTIVE_WITH_VOTING:
            raise no_voting()


def no_voting() -> UnsupportedProperty:
    return UnsupportedProperty(
        REPLICATION_STYLE, "active_with_voting", "voting is not supported yet; active is the nearest"
    )
