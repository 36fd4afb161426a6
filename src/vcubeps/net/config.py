"""The cluster file: TOML in, checked settings out, and back.

What can be set is declared in `settings`, and what each key takes is read off it in `config_keys`; here is how a file
is read, and what is said about one that cannot be used. Nothing here opens a socket or creates a directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import quote

import msgspec

from vcubeps.net.config_keys import HOMES, INTEGER_MAX, Key, Section, ip_of, is_any, keys_of
from vcubeps.node.settings import ClusterSettings, NodeSettings, host_and_port

_PROBLEMS_SHOWN_MAX = 20

_GONE = {
    "unreachable_after_s": "it is gone: suspect_after_s in [detection] says how long a node may be silent",
}
"""Keys of earlier releases, and what to do about them."""


class ConfigError(ValueError):
    """What an operator has to put right before a node can start.

    Each line of the text is one problem: where it is, what was expected, what was found, what to do.
    """


def load(path: str | os.PathLike[str]) -> ClusterSettings:
    """The settings in the cluster file at `path`."""
    where = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{where}: there is no such file: give the path of the cluster file") from None
    except IsADirectoryError:
        raise ConfigError(f"{where}: this is a directory: give the path of the cluster file in it") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{where}: the file cannot be read ({reason}): make it readable for this user"
        ) from None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{where}: line {line} must be UTF-8, got the byte 0x{content[error.start]:02x}: save the file as UTF-8"
        ) from None
    return parse(text, where)


def parse(text: str, where: str) -> ClusterSettings:
    """The settings that `text` holds; `where` names it in errors.

    >>> parse('cluster = "demo"\\nnodes = [{id = 0, address = "127.0.0.1:7000"}]', "demo.toml").ids
    (0,)
    """
    # Some editors put a byte order mark first, which is no part of TOML 1.0.
    found = _read(text.removeprefix("\ufeff"), where)
    problems = list(_table_problems(found, ClusterSettings, ""))
    if not problems:
        settings = msgspec.convert(found, ClusterSettings)
        problems = list(_contradictions(settings))
        if not problems:
            return settings
    lines = [f"{where}: {problem}" for problem in problems[:_PROBLEMS_SHOWN_MAX]]
    if len(problems) > _PROBLEMS_SHOWN_MAX:
        lines.append(f"{where}: {len(problems) - _PROBLEMS_SHOWN_MAX} more problems: correct these first")
    raise ConfigError("\n".join(lines))


def checked(settings: ClusterSettings) -> ClusterSettings:
    """Settings that were made in a program, if they would do in a file; raises ConfigError otherwise."""
    return parse(dump(settings), "settings")


def dump(settings: ClusterSettings) -> str:
    """A cluster file that says `settings`; limits, timing and detection only where they are not the default."""
    lines = list(_assignments(settings))
    for node in settings.nodes:
        lines += ["", "[[nodes]]", *_assignments(node)]
    sections = (("limits", settings.limits), ("timing", settings.timing), ("detection", settings.detection))
    for title, section in sections:
        if changed := list(_assignments(section)):
            lines += ["", f"[{title}]", *changed]
    return "\n".join(lines) + "\n"


def state_directory(settings: ClusterSettings, file: Path | None) -> Path:
    """Where the nodes keep how often they have started; `file` is the cluster file, if there is one."""
    if settings.state_dir is not None:
        return _beside(file, settings.state_dir)
    # The XDG specification has relative values ignored.
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        try:
            base = str(Path.home() / ".local" / "state")
        except RuntimeError:
            raise ConfigError(
                f"{file or 'cluster settings'}: state_dir must be given where the user has no home directory, "
                "got neither: set state_dir, or HOME"
            ) from None
    return Path(base) / "vcubeps" / _folder_name(settings.cluster)


def trace_directory(settings: ClusterSettings, file: Path | None) -> Path | None:
    """Where the nodes write their traces, if they do; `file` is the cluster file, if there is one."""
    return None if settings.trace_dir is None else _beside(file, settings.trace_dir)


def _beside(file: Path | None, directory: str) -> Path:
    return ((file.parent if file else Path()) / directory).absolute()


def _folder_name(cluster: str) -> str:
    """A name for one folder, whatever `cluster` is; another for each.

    >>> _folder_name("demo-1"), _folder_name("a/b"), _folder_name("..")
    ('demo-1', 'a%2Fb', '%2E.')
    """
    name = quote(cluster, safe="")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) <= 100:
        return name
    # File systems take 255 bytes. A + is in no quoted name, so no other cluster is called like this.
    return f"{name[:80]}+{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"


# What is wrong with a file.


def _read(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).removesuffix(")").rpartition(" (at ")
        if not place.startswith("line"):
            place = f"line {text.count(chr(10)) + 1}, the end of the file"
        problem = f"{place}: must be valid TOML, got a mistake ({what}): correct that line"
    except ValueError:
        problem = "numbers must have at most 64 bits, got one of thousands of digits: shorten it"
    except RecursionError:
        problem = "tables and arrays must not lie in each other this deep: write [section] and its keys below"
    raise ConfigError(f"{where}: {problem}")


def _table_problems(table: Mapping[str, object], section: Section, prefix: str) -> Iterator[str]:
    keys = keys_of(section)
    for name in table:
        if name not in keys:
            yield f"{prefix}{_shown_key(name)} is unknown: {_suggestion(name, section)}"
    for name, key in keys.items():
        if name in table:
            yield from _value_problems(table[name], key, f"{prefix}{name}")
        elif key.required:
            yield f"{prefix}{name} must be {key.expected()}, got nothing: add it ({key.meaning})"


def _value_problems(value: object, key: Key, place: str) -> Iterator[str]:
    if key.kind == "table" and key.section and isinstance(value, dict):
        yield from _table_problems(value, key.section, f"{place}.")
    elif key.kind == "array of tables" and key.section and isinstance(value, list) and value:
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield from _table_problems(item, key.section, f"{place}[{index}].")
            else:
                yield f"{place}[{index}] must be a table, got {_shown(item)}: {key.fix(item)}"
    elif fix := key.fix(value):
        yield f"{place} must be {key.expected()}, got {_shown(value)}: {fix}"


def _suggestion(name: str, section: Section) -> str:
    """What to do about a key that `section` does not have."""
    if name in _GONE:
        return _GONE[name]
    for other, home in HOMES.items():
        if name in keys_of(other):
            return f"it belongs {_in(home)}: move it there"
    if close := get_close_matches(name, keys_of(section), n=1):
        return f"did you mean {close[0]}?"
    for other, home in HOMES.items():
        if close := get_close_matches(name, keys_of(other), n=1):
            return f"did you mean {close[0]}, which belongs {_in(home)}?"
    return f"choose among {', '.join(keys_of(section))}"


def _in(home: str) -> str:
    return f"in {home}" if home else "at the top of the file, above the first [table]"


def _contradictions(settings: ClusterSettings) -> Iterator[str]:
    """What is wrong although each value by itself is right."""
    ids: dict[int, int] = {}
    endpoints: dict[tuple[str, int], str] = {}
    for index, node in enumerate(settings.nodes):
        first = ids.setdefault(node.id, index)
        if first != index:
            yield f"nodes[{index}].id must be its own, got {node.id}, which nodes[{first}] has: give it another"
        for name, address in (("address", node.address), ("gateway", node.gateway)):
            if address is None:
                continue
            place = f"nodes[{index}].{name}"
            holder = endpoints.setdefault(_endpoint(address, node), place)
            if holder != place:
                yield f"{place} must be its own, got {address!r}, which {holder} has: give it another port"
        if node.listen and node.gateway and _endpoint(node.listen, node) == _endpoint(node.gateway, node):
            yield (
                f"nodes[{index}].gateway must be its own, got {node.gateway!r}, which nodes[{index}].listen has: "
                "give it another port"
            )
    timing = settings.timing
    if timing.reconnect_min_s > timing.reconnect_max_s:
        yield (
            f"timing.reconnect_min_s must be at most timing.reconnect_max_s ({timing.reconnect_max_s:g}), got "
            f"{timing.reconnect_min_s:g}: lower it, or raise timing.reconnect_max_s"
        )
    yield from _detection_contradictions(settings)


def _detection_contradictions(settings: ClusterSettings) -> Iterator[str]:
    detection = settings.detection
    if detection.contact_s < 2 * detection.ping_s:
        yield (
            f"detection.contact_s must be at least twice detection.ping_s ({detection.ping_s:g}), got "
            f"{detection.contact_s:g}: raise it, or lower detection.ping_s"
        )
    if detection.suspect_after_s < 1.2 * detection.contact_s:
        yield (
            f"detection.suspect_after_s must be at least 1.2 times detection.contact_s ({detection.contact_s:g}), got "
            f"{detection.suspect_after_s:g}: raise it, or who is cut off would suspect the others before it knows"
        )
    if settings.voters is not None:
        strangers = sorted(set(settings.voters) - set(settings.ids))
        if strangers:
            yield f"voters must be ids of nodes, got {strangers[0]}, which no node has: correct it, or add the node"
        if len(settings.voters) > settings.voters_max:
            yield (
                f"voters must be at most {settings.voters_max} with these timings, got {len(settings.voters)}: name "
                "fewer, or raise detection.contact_s"
            )
        if len(set(settings.voters)) != len(settings.voters):
            yield f"voters must be different, got {list(settings.voters)}: name each once"
        if settings.partition == "continue":
            yield 'voters decide only where partition is "majority", got "continue": remove one of the two'


def _endpoint(address: str, node: NodeSettings) -> tuple[str, int]:
    """One form for all the ways to write the same address of `node`."""
    name, port = host_and_port(address)
    host, machine = _host(name), _host(host_and_port(node.address)[0])
    # Every machine has a 0.0.0.0 and a 127.0.0.1 of its own.
    if is_any(host) or (_is_loopback(host) and not _is_loopback(machine)):
        host = machine
    return host, port


def _host(name: str) -> str:
    name = name.lower().removesuffix(".")
    return str(ip_of(name) or ("127.0.0.1" if name == "localhost" else name))


def _is_loopback(host: str) -> bool:
    ip = ip_of(host)
    return ip is not None and ip.is_loopback


# How values and keys are written.


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        return "a number of more than 64 bits"
    text = repr(value) if isinstance(value, int | float | str) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _shown_key(name: str) -> str:
    bare = re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name)
    return name if bare else _shown(name)


def _assignments(section: msgspec.Struct) -> Iterator[str]:
    """The lines for all keys of `section` that hold no tables and are not at their default."""
    for name, key in keys_of(type(section)).items():
        value = getattr(section, name)
        if key.section is None and value != key.default:
            # What JSON escapes in a string, TOML's basic strings escape in the same way.
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}"
