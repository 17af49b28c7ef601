"""Which channels does a project have, and what may each of them get? The section `notify:`.

    notify:
      default: [ops]
      channels:
        ops: {type: slack, url_path: /run/secrets/slack}

`CHANNELS` gives a type's model to whoever reads the file channel by channel: its findings then name
the keys as they are written. A model's `path_keys` may be given as `<key>_path`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from backhaul.control.notify.base import Kind
from backhaul.control.notify.rate import Rate, RateLimit
from backhaul.control.notify.render import template_mistake
from backhaul.project.settings import Duration, Names, Settings

LOG = "log"
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_URL = re.compile(r"https?://[^\s/?#@]+(?:[/?#]\S*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"[^\s@<>(),;:\\\"\[\]]{1,64}@[A-Za-z0-9.-]{1,255}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Ours, or of the transport: set twice, a receiver reads whichever it likes.
_OUR_HEADERS = ("content-type", "content-length", "host", "transfer-encoding", "connection")
_OUR_PREFIX = "backhaul-"

ChannelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
Timeout = Annotated[Duration, Field(ge=timedelta(milliseconds=100), le=timedelta(minutes=1))]


def is_address(text: str) -> bool:
    """Whether a mail can be addressed with it: `ops@example.com`, without a name."""
    return bool(_ADDRESS.fullmatch(text))


class _Channel(Settings):
    """What all channels have. `types` are the kinds that go there: all, unless it says less."""

    path_keys: ClassVar[tuple[str, ...]] = ("template",)
    # Whether messages beyond the rate may become one. Not where a program counts them.
    folds: ClassVar[bool] = True

    types: tuple[Kind, ...] | None = None
    rate: RateLimit = None
    template: str | None = None

    @field_validator("types", mode="before")
    @classmethod
    def _one_or_many(cls, types: object) -> object:
        return (types,) if isinstance(types, str) else types

    @field_validator("template")
    @classmethod
    def _readable(cls, template: str | None) -> str | None:
        if template is not None and (mistake := template_mistake(template)):
            raise ValueError(mistake)
        return template

    def wants(self, kind: Kind) -> bool:
        return self.types is None or kind in self.types or kind is Kind.TEST


class SlackSettings(_Channel):
    """A Slack channel, by an incoming webhook; its address is the secret."""

    path_keys: ClassVar[tuple[str, ...]] = ("url", "template")

    type: Literal["slack"] = "slack"
    url: SecretStr
    rate: RateLimit = Rate(20, timedelta(minutes=10))
    timeout: Timeout = timedelta(seconds=10)

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        return _checked_url(url)


class EmailSettings(_Channel):
    """Mail by an SMTP server."""

    path_keys: ClassVar[tuple[str, ...]] = ("password", "template")

    type: Literal["email"] = "email"
    host: str = Field(min_length=1, pattern=r"^\S+$")
    port: int | None = Field(default=None, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: str | None = None
    user: str | None = None
    password: SecretStr | None = None
    sender: str
    to: Names = Field(min_length=1, max_length=50)
    rate: RateLimit = Rate(20, timedelta(minutes=10))
    timeout: Timeout = timedelta(seconds=20)

    @property
    def port_used(self) -> int:
        return _PORTS[self.security] if self.port is None else self.port

    @field_validator("sender")
    @classmethod
    def _sender(cls, sender: str) -> str:
        return _checked_address(sender)

    @field_validator("to")
    @classmethod
    def _addresses(cls, to: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_checked_address(one) for one in to)

    @model_validator(mode="after")
    def _login(self) -> EmailSettings:
        if (self.user is None) != (self.password is None):
            raise ValueError("`user` and `password` go together: give both, or neither")
        if self.password is not None and self.security == "none":
            raise ValueError("a password is only sent encrypted: set `security` to starttls or tls")
        return self


class WebhookSettings(_Channel):
    """Any program that takes a signed JSON document."""

    path_keys: ClassVar[tuple[str, ...]] = ("url", "secret", "template")
    folds: ClassVar[bool] = False

    type: Literal["webhook"] = "webhook"
    url: SecretStr
    secret: SecretStr = Field(min_length=8)
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    timeout: Timeout = timedelta(seconds=10)

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        return _checked_url(url)

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a header")
            if name.lower() in _OUR_HEADERS or name.lower().startswith(_OUR_PREFIX):
                raise ValueError(f"the header {name} is set by backhaul")
            if not re.fullmatch(r"[\x20-\x7e]*", value.get_secret_value()):
                raise ValueError(f"the value of {name} has characters that no header can have")
        return headers


class PagerDutySettings(_Channel):
    """PagerDuty's events, version 2. Unless told otherwise only what a person must act on."""

    path_keys: ClassVar[tuple[str, ...]] = ("routing_key", "template")
    # A recovery that became a line of a digest would resolve nothing.
    folds: ClassVar[bool] = False

    type: Literal["pagerduty"] = "pagerduty"
    routing_key: SecretStr = Field(min_length=1)
    url: str = "https://events.pagerduty.com/v2/enqueue"
    types: tuple[Kind, ...] | None = (
        Kind.RETRY_EXHAUSTED, Kind.RECOVERY, Kind.SLA_BREACH, Kind.QUALITY, Kind.BUDGET,
    )  # fmt: skip
    timeout: Timeout = timedelta(seconds=10)

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        return _checked_url(SecretStr(url)).get_secret_value()


class LogSettings(_Channel):
    """backhaul's own log."""

    type: Literal["log"] = "log"


ChannelSettings = SlackSettings | EmailSettings | WebhookSettings | PagerDutySettings | LogSettings
CHANNELS: Mapping[str, type[ChannelSettings]] = MappingProxyType(
    {
        "slack": SlackSettings,
        "email": EmailSettings,
        "webhook": WebhookSettings,
        "pagerduty": PagerDutySettings,
        "log": LogSettings,
    }
)


class NotifyConfig(Settings):
    """The project's channels by name; `default` are those of pipelines that name none."""

    channels: dict[ChannelName, Annotated[ChannelSettings, Field(discriminator="type")]] = Field(
        default_factory=dict
    )
    default: Names = ()

    @model_validator(mode="after")
    def _known(self) -> NotifyConfig:
        if unknown := [name for name in self.default if name not in self.known]:
            raise ValueError(
                f"`default` names no channel: {', '.join(unknown)}; valid: {', '.join(self.known)}"
            )
        return self

    @property
    def known(self) -> Mapping[str, ChannelSettings]:
        """The channels, and the log, which is there without a word about it."""
        return {LOG: LogSettings(), **self.channels}


def _checked_url(url: SecretStr) -> SecretStr:
    # The value may be a secret, and is not repeated.
    if not _URL.fullmatch(url.get_secret_value()):
        raise ValueError("that is not an address like https://host/path, without user and password")
    return url


def _checked_address(address: str) -> str:
    if not is_address(address):
        raise ValueError(f"{address[:100]!r} is not a mail address like ops@example.com")
    return address
