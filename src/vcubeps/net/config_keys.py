"""What each key of a cluster file takes, read off the declarations in `settings`.

For `config`, which checks files by it, and `config_page`, which shows it to operators: one source for both.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec
from msgspec import inspect

from vcubeps.node.settings import ClusterSettings, Detection, Limits, NodeSettings, Timing, host_and_port

INTEGER_MAX = (1 << 63) - 1
"""TOML promises no more, and much longer ones could not even be printed."""

Section: TypeAlias = type[msgspec.Struct]
Kind: TypeAlias = Literal[
    "whole number", "number", "text", "choice", "array of whole numbers", "table", "array of tables"
]

HOMES: Mapping[Section, str] = MappingProxyType(
    {
        ClusterSettings: "",
        NodeSettings: "[[nodes]]",
        Limits: "[limits]",
        Timing: "[timing]",
        Detection: "[detection]",
    }
)
"""Every section of the file, with the header that it stands under."""


@dataclass(frozen=True, slots=True)
class Key:
    """What one key of the file takes, and what it means."""

    name: str
    kind: Kind
    meaning: str
    required: bool
    default: object
    low: float = 0
    high: float = 0
    """Both ends of the range of a number, of the length of a text."""
    low_excluded: bool = False
    section: Section | None = None
    """What a table, or each of an array of tables, holds."""
    choices: tuple[str, ...] = ()
    """The texts that a choice is among."""

    def expected(self) -> str:
        """The values it takes, in words.

        >>> keys_of(Limits)["batch_items_max"].expected(), keys_of(Timing)["connect_timeout_s"].expected()
        ('a whole number from 1 to 1024', 'a finite number above 0')
        """
        if self.kind == "text":
            return _TEXTS[self.name].expected.format(low=self.low, high=self.high)
        if self.kind == "choice":
            return " or ".join(f'"{choice}"' for choice in self.choices)
        if self.kind == "array of whole numbers":
            return "an array of at least one whole number"
        if self.kind == "number":
            return f"a finite number above {self.low:g}"
        if self.kind == "whole number":
            end = "up" if self.high == INTEGER_MAX else f"to {self.high}"
            return f"a whole number from {self.low} {end}"
        return "a table" if self.kind == "table" else "an array of at least one table"

    def fix(self, value: object) -> str | None:
        """What to do about `value`, which is no table; None if it can be used."""
        if self.kind == "text" and isinstance(value, str):
            return _TEXTS[self.name].fix(value, self)
        if self.kind == "choice" and isinstance(value, str):
            return None if value in self.choices else "choose one of them"
        if self.kind == "array of whole numbers" and isinstance(value, list):
            is_sound = value and all(isinstance(each, int) and not isinstance(each, bool) for each in value)
            return None if is_sound else "give whole numbers"
        # bool is a subclass of int in Python, but true is no number in TOML.
        number = not isinstance(value, bool) and isinstance(
            value, int | float if self.kind == "number" else int
        )
        if number and self.kind in {"number", "whole number"}:
            return None if self._in_range(value) else "give a value in that range"
        return _KIND_FIXES[self.kind].format(name=self.name)

    def _in_range(self, value: object) -> bool:
        assert isinstance(value, int | float)
        # Written so that nan, which compares as false with everything, is out.
        return self.low <= value <= self.high and not (self.low_excluded and value == self.low)


_KIND_FIXES: Mapping[Kind, str] = MappingProxyType(
    {
        "whole number": "write digits only, without quotes or decimal point",
        "number": "write a number, without quotes",
        "text": "put it in quotes",
        "choice": "put it in quotes",
        "array of whole numbers": "write them in brackets, as in {name} = [0, 1, 2]",
        "table": "write [{name}] in single brackets, and its keys below",
        "array of tables": "write [[{name}]] in double brackets once for each, and its keys below",
    }
)


@cache
def keys_of(section: Section) -> Mapping[str, Key]:
    """The keys of one section of the file, in the order of their declaration."""
    about = inspect.type_info(section)
    assert isinstance(about, inspect.StructType)
    return MappingProxyType({field.name: _key(field) for field in about.fields})


def _key(field: inspect.Field) -> Key:
    kind, meaning = field.type, ""
    if isinstance(kind, inspect.Metadata):
        meaning = (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        (kind,) = (option for option in kind.types if not isinstance(option, inspect.NoneType))
    common = (meaning, field.required, field.default)
    match kind:
        case inspect.IntType(ge=int(low), le=high):
            return Key(field.name, "whole number", *common, low, INTEGER_MAX if high is None else high)
        case inspect.FloatType(gt=low) if low is not None:
            return Key(field.name, "number", *common, low, sys.float_info.max, low_excluded=True)
        case inspect.StrType(min_length=low, max_length=high):
            return Key(field.name, "text", *common, low or 1, high or _PATH_MAX)
        case inspect.LiteralType(values=values):
            return Key(field.name, "choice", *common, choices=tuple(map(str, values)))
        case inspect.VarTupleType(item_type=inspect.IntType()):
            return Key(field.name, "array of whole numbers", *common)
        case inspect.StructType(cls=inner):
            return Key(field.name, "table", *common, section=inner)
        case inspect.VarTupleType(item_type=inspect.StructType(cls=inner)):
            return Key(field.name, "array of tables", *common, section=inner)
    raise TypeError(f"{field.name} is declared as {kind}: teach {__name__} to check it")


# Texts with a form of their own.

_PATH_MAX = 4096
_PORT_MAX = 65535
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class _Text:
    expected: str
    fix: Callable[[str, Key], str | None]
    """What to do about a text that does not have the form; None if it has."""


def _name_fix(name: str, key: Key) -> str | None:
    if not key.low <= len(name) <= key.high:
        return "give it a name of such a length"
    return None if name.isprintable() else "remove the characters that do not print"


def _directory_fix(path: str, key: Key) -> str | None:
    if not key.low <= len(path) <= key.high:
        return f"give one of at most {key.high} characters, or remove the key" if path else "remove the key"
    if path.startswith("~"):
        return "write the home directory out"
    return None if path.isprintable() else "remove the characters that do not print"


def _reachable_fix(address: str, key: Key) -> str | None:
    if fix := _address_fix(address, key):
        return fix
    if is_any(host_and_port(address)[0]):
        return "put this into listen, and here the address by which the other nodes know this machine"
    return None


def _address_fix(address: str, _key: Key) -> str | None:
    host, _colon, port = address.rpartition(":")
    if "://" in address:
        return "remove everything up to ://"
    if ":" in host and not address.startswith("["):
        return "put an IPv6 address into brackets, as in [::1]:7000"
    if not host or address.endswith("]"):
        return "give host and port, as in 10.0.0.7:7000"
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= _PORT_MAX):
        return f"give a port from 1 to {_PORT_MAX}"
    if host.startswith("["):
        return None if _is_ipv6(host) else "correct the IPv6 address between the brackets"
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return "correct the host: a name of letters, digits, - and dots, or an IP address"
    # A name that ends in a number is taken for an IPv4 address by whatever resolves it.
    if labels[-1].isdigit() and ip_of(host) is None:
        return "correct the IPv4 address: four numbers from 0 to 255"
    return None


def _is_ipv6(host: str) -> bool:
    inner = host[1:-1]
    # What may follow a % (the interface) is hardly limited by the standard library.
    if host != f"[{inner}]" or not re.fullmatch(r"[0-9A-Za-z:.%_-]+", inner):
        return False
    return isinstance(ip_of(inner), ipaddress.IPv6Address)


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that `host` is, if it is no name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_any(host: str) -> bool:
    """Whether `host` stands for all the addresses of a machine."""
    ip = ip_of(host)
    return ip is not None and ip.is_unspecified


_ADDRESS = f"HOST:PORT or [IPv6]:PORT with a port from 1 to {_PORT_MAX}"
_DIRECTORY = "the path of a directory, without ~"

_TEXTS: Mapping[str, _Text] = MappingProxyType(
    {
        "cluster": _Text("a text of {low} to {high} printable characters", _name_fix),
        "state_dir": _Text(_DIRECTORY, _directory_fix),
        "trace_dir": _Text(_DIRECTORY, _directory_fix),
        "address": _Text(f"{_ADDRESS}, and not 0.0.0.0 or [::]", _reachable_fix),
        "listen": _Text(_ADDRESS, _address_fix),
        "gateway": _Text(_ADDRESS, _address_fix),
    }
)
