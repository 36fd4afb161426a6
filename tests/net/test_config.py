"""The cluster file: what is read, what is refused and with which words, and the page about it."""

import os
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcubeps.net import config_page
from vcubeps.net.config import ConfigError, dump, load, parse, state_directory, trace_directory
from vcubeps.net.config_keys import HOMES, INTEGER_MAX, keys_of
from vcubeps.node.settings import ClusterSettings, Detection, Limits, NodeSettings, Timing
from vcubeps.protocol.limits import MAX_BATCH_BYTES

TOP = 'cluster = "demo"\n'
NODE = '[[nodes]]\nid = 0\naddress = "10.0.0.1:7000"\n'
LEAST = TOP + NODE


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.toml")
    return str(caught.value)


def with_node(**keys: str) -> str:
    """A file whose second node has these keys."""
    values = {"id": "1", "address": '"10.0.0.2:7000"'} | keys
    return LEAST + "[[nodes]]\n" + "".join(f"{name} = {value}\n" for name, value in values.items() if value)


def cluster(**keys: object) -> ClusterSettings:
    node = NodeSettings(id=0, address="10.0.0.1:7000")
    return ClusterSettings(**{"cluster": "demo", "nodes": (node,)} | keys)


# What is read.


def test_the_least_file_gives_the_defaults_for_everything_else():
    assert parse(LEAST, "c.toml") == cluster(limits=Limits(), timing=Timing())


def test_every_value_of_a_file_is_read():
    text = (
        'cluster = "demo"\nstate_dir = "s"\ntrace_dir = "t"\n'
        '[[nodes]]\nid = 5\naddress = "h:1"\nlisten = "[::]:2"\ngateway = "h:65535"\n'
        "[limits]\nbatch_items_max = 7\n[timing]\nclose_within_s = 4\n"
    )

    assert parse(text, "c.toml") == ClusterSettings(
        cluster="demo",
        state_dir="s",
        trace_dir="t",
        nodes=(NodeSettings(id=5, address="h:1", listen="[::]:2", gateway="h:65535"),),
        limits=Limits(batch_items_max=7),
        timing=Timing(close_within_s=4.0),
    )


def test_a_whole_number_of_seconds_is_read_as_a_real_number():
    assert type(parse(LEAST + "[timing]\nclose_within_s = 4", "c.toml").timing.close_within_s) is float


def test_a_byte_order_mark_is_passed_over():
    assert parse("\ufeff" + LEAST, "c.toml") == cluster()


@pytest.mark.parametrize(
    "address",
    ["a:1", "localhost:65535", "db_1.example.org.:7000", "xn--mnchen-3ya.de:7000", "10.0.0.9:7000", "[::1]:7000",
     "[fe80::1%eth0]:7000"],
)  # fmt: skip
def test_host_names_and_both_kinds_of_ip_address_are_addresses(address):
    assert parse(with_node(address=f'"{address}"'), "c.toml").nodes[1].address == address


# Files that cannot be read.


def test_a_file_is_read_from_its_path(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(LEAST)

    assert load(path) == load(str(path)) == cluster()


def test_an_error_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(NODE)

    with pytest.raises(ConfigError, match=re.escape(f"{path}: cluster must be a text of 1 to 100")):
        load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "c.toml")

    assert str(caught.value) == f"{tmp_path}/c.toml: there is no such file: give the path of the cluster file"


def test_a_directory_is_no_cluster_file(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)

    assert str(caught.value) == f"{tmp_path}: this is a directory: give the path of the cluster file in it"


def test_a_file_that_cannot_be_read_comes_with_the_reason_of_the_system(tmp_path):
    loop = tmp_path / "c.toml"
    loop.symlink_to(loop)

    with pytest.raises(ConfigError) as caught:
        load(loop)

    reason = "Too many levels of symbolic links"
    assert str(caught.value) == f"{loop}: the file cannot be read ({reason}): make it readable for this user"


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path):
    path = tmp_path / "c.toml"
    path.write_bytes(b'# fine\ncluster = "caf\xe9"\n')

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert str(caught.value) == f"{path}: line 2 must be UTF-8, got the byte 0xe9: save the file as UTF-8"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (
            TOP + "nodes = what\n",
            "c.toml: line 2, column 9: must be valid TOML, got a mistake (Invalid value)",
        ),
        (
            TOP + TOP,
            "c.toml: line 2, column 17: must be valid TOML, got a mistake (Cannot overwrite a value)",
        ),
        (
            TOP + "\nnodes =",
            "c.toml: line 3, the end of the file: must be valid TOML, got a mistake (Invalid value)",
        ),
    ],
)
def test_what_is_not_toml_is_refused_with_the_line(text, start):
    assert refusal(text) == start + ": correct that line"


def test_a_number_too_long_for_python_is_refused():
    assert refusal(f"cluster = {'9' * 5000}").startswith(
        "c.toml: numbers must have at most 64 bits, got one of"
    )


def test_a_number_too_long_to_be_printed_is_refused():
    text = LEAST + f"[limits]\nqueue_messages_max = 0x{'f' * 5000}"

    assert "got a number of more than 64 bits: give a value in that range" in refusal(text)


def test_brackets_without_end_are_refused():
    assert refusal("nodes = " + "[" * 100_000).startswith(
        "c.toml: tables and arrays must not lie in each other"
    )


# Keys.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TOP + "unacknowledged_max = 5\n" + NODE,
         "unacknowledged_max is unknown: it belongs in [limits]: move it there"),
        (LEAST + 'state_dir = "s"',
         "nodes[0].state_dir is unknown: it belongs at the top of the file, above the first [table]: move it there"),
        (LEAST + "[limits]\nid = 3", "limits.id is unknown: it belongs in [[nodes]]: move it there"),
        (LEAST + 'adress = "10.0.0.1:7000"', "nodes[0].adress is unknown: did you mean address?"),
        (LEAST + "[limit]\n", "limit is unknown: did you mean limits?"),
        (LEAST + "[limits]\nconnect_timeout = 1",
         "limits.connect_timeout is unknown: did you mean connect_timeout_s, which belongs in [timing]?"),
        (LEAST + "[limits]\nstat_dir = 1",
         "limits.stat_dir is unknown: did you mean state_dir, which belongs at the top of the file, above the first "
         "[table]?"),
        (LEAST + "xyz = 1", "nodes[0].xyz is unknown: choose among id, address, listen, gateway"),
        (LEAST + '"x\\ny" = 1', r"nodes[0].'x\ny' is unknown: choose among id, address, listen, gateway"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_refused_with_the_one_that_may_be_meant(text, problem):
    assert refusal(text) == f"c.toml: {problem}"


def test_a_missing_key_is_asked_for():
    assert refusal(TOP + '[[nodes]]\naddress = "h:1"') == (
        "c.toml: nodes[0].id must be a whole number from 0 to 1048575, got nothing: add it (its place in the hypercube)"
    )


def test_all_problems_of_a_file_are_listed_one_per_line():
    lines = refusal(TOP + '[[nodes]]\nid = -1\naddress = "h"\n[timing]\nclose_within_s = 0').split("\n")

    assert [line.split(" must be ")[0] for line in lines] == [
        "c.toml: nodes[0].id",
        "c.toml: nodes[0].address",
        "c.toml: timing.close_within_s",
    ]


def test_a_file_with_very_many_problems_lists_twenty_and_counts_the_others():
    lines = refusal(TOP + '[[nodes]]\nid = -1\naddress = "h:1"\n' * 25).split("\n")

    assert len(lines) == 21
    assert lines[-1] == "c.toml: 5 more problems: correct these first"


# Types and ranges.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster = 5\n" + NODE,
         "cluster must be a text of 1 to 100 printable characters, got 5: put it in quotes"),
        (with_node(id="true"),
         "nodes[1].id must be a whole number from 0 to 1048575, got true: write digits only, without quotes or "
         "decimal point"),
        (with_node(id='"1"'),
         "nodes[1].id must be a whole number from 0 to 1048575, got '1': write digits only, without quotes or "
         "decimal point"),
        (with_node(id="1.0"),
         "nodes[1].id must be a whole number from 0 to 1048575, got 1.0: write digits only, without quotes or "
         "decimal point"),
        (LEAST + "[timing]\nclose_within_s = true",
         "timing.close_within_s must be a finite number above 0, got true: write a number, without quotes"),
        (LEAST + "[timing]\nclose_within_s = 2024-01-01",
         "timing.close_within_s must be a finite number above 0, got 2024-01-01: write a number, without quotes"),
        (TOP + '[nodes]\nid = 0\naddress = "h:1"',
         "nodes must be an array of at least one table, got a table: write [[nodes]] in double brackets once for "
         "each, and its keys below"),
        (TOP + "nodes = []",
         "nodes must be an array of at least one table, got an empty array: write [[nodes]] in double brackets once "
         "for each, and its keys below"),
        (TOP + 'nodes = ["h:1"]',
         "nodes[0] must be a table, got 'h:1': write [[nodes]] in double brackets once for each, and its keys below"),
        (LEAST + "[[limits]]\n",
         "limits must be a table, got an array: write [limits] in single brackets, and its keys below"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(text, problem):
    assert refusal(text) == f"c.toml: {problem}"


@pytest.mark.parametrize("value", ["0", "0.0", "-1", "nan", "inf", "-inf", "1" + "0" * 400])
def test_a_time_that_is_not_finite_and_positive_is_refused(value):
    assert "timing.close_within_s must be a finite number above 0, got " in refusal(
        LEAST + f"[timing]\nclose_within_s = {value}"
    )


LIMITS = list(keys_of(Limits).values())


@pytest.mark.parametrize("key", LIMITS, ids=lambda key: key.name)
def test_both_ends_of_a_range_are_taken_and_what_lies_beyond_is_refused(key):
    for inside in (key.low, key.high):
        assert getattr(parse(LEAST + f"[limits]\n{key.name} = {inside}", "c.toml").limits, key.name) == inside
    for outside in (key.low - 1, key.high + 1):
        assert f"limits.{key.name} must be a whole number from {key.low} " in refusal(
            LEAST + f"[limits]\n{key.name} = {outside}"
        )


def test_the_range_of_a_key_is_the_declared_one():
    key = keys_of(Limits)["unacknowledged_max"]

    assert (key.low, key.high) == (1, 1 << 16)
    assert keys_of(Limits)["queue_messages_max"].high == INTEGER_MAX


def test_a_frame_must_have_room_for_a_batch_and_what_surrounds_it():
    least = MAX_BATCH_BYTES + (1 << 20)

    assert refusal(LEAST + f"[limits]\nframe_bytes_max = {least - 1}") == (
        f"c.toml: limits.frame_bytes_max must be a whole number from {least} to 4294967295, got {least - 1}: "
        "give a value in that range"
    )


def test_a_node_id_beyond_the_largest_cube_is_refused():
    assert parse(with_node(id="1048575"), "c.toml").ids == (0, 1048575)
    assert "nodes[1].id must be a whole number from 0 to 1048575, got 1048576" in refusal(
        with_node(id="1048576")
    )


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("", "give it a name of such a length"),
        ("x" * 101, "give it a name of such a length"),
        ("a\\u0007b", "remove the characters that do not print"),
        ("a\\nb", "remove the characters that do not print"),
    ],
)
def test_a_cluster_name_that_is_empty_too_long_or_does_not_print_is_refused(name, fix):
    line = refusal(f'cluster = "{name}"\n' + NODE)

    assert line.startswith("c.toml: cluster must be a text of 1 to 100 printable characters, got ")
    assert line.endswith(f": {fix}")
    assert "\a" not in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("", "remove the key"),
        ("~/state", "write the home directory out"),
        ("a\\u0000b", "remove the characters that do not print"),
        ("x" * 5000, "give one of at most 4096 characters, or remove the key"),
    ],
)
@pytest.mark.parametrize("key", ["state_dir", "trace_dir"])
def test_a_directory_that_cannot_be_meant_is_refused(key, path, fix):
    line = refusal(f'{key} = "{path}"\n' + LEAST)

    assert line.startswith(f"c.toml: {key} must be the path of a directory, without ~, got '")
    assert line.endswith(f": {fix}")


# Addresses.


@pytest.mark.parametrize(
    ("address", "fix"),
    [
        ("", "give host and port, as in 10.0.0.7:7000"),
        ("10.0.0.1", "give host and port, as in 10.0.0.7:7000"),
        (":7000", "give host and port, as in 10.0.0.7:7000"),
        ("[::1]", "give host and port, as in 10.0.0.7:7000"),
        ("::1", "put an IPv6 address into brackets, as in [::1]:7000"),
        ("::1:7000", "put an IPv6 address into brackets, as in [::1]:7000"),
        ("tcp://h:7000", "remove everything up to ://"),
        ("h:", "give a port from 1 to 65535"),
        ("h:0", "give a port from 1 to 65535"),
        ("h:65536", "give a port from 1 to 65535"),
        ("h:-1", "give a port from 1 to 65535"),
        ("h:http", "give a port from 1 to 65535"),
        ("h: 7000", "give a port from 1 to 65535"),
        ("h:٧", "give a port from 1 to 65535"),
        ("[::g]:7000", "correct the IPv6 address between the brackets"),
        ("[10.0.0.1]:7000", "correct the IPv6 address between the brackets"),
        ("[::1]x:7000", "correct the IPv6 address between the brackets"),
        ("[::1x:7000", "correct the IPv6 address between the brackets"),
        ("[:7000", "correct the IPv6 address between the brackets"),
        ("[fe80::1%e/0]:7000", "correct the IPv6 address between the brackets"),
        ("a b:7000", "correct the host: a name of letters, digits, - and dots, or an IP address"),
        ("-a:7000", "correct the host: a name of letters, digits, - and dots, or an IP address"),
        ("a..b:7000", "correct the host: a name of letters, digits, - and dots, or an IP address"),
        ("x" * 64 + ":7000", "correct the host: a name of letters, digits, - and dots, or an IP address"),
        ("x." * 127 + "y:7000", "correct the host: a name of letters, digits, - and dots, or an IP address"),
        ("10.0.0.256:7000", "correct the IPv4 address: four numbers from 0 to 255"),
        ("10.0.1:7000", "correct the IPv4 address: four numbers from 0 to 255"),
    ],
)
@pytest.mark.parametrize("key", ["address", "listen", "gateway"])
def test_what_is_not_an_address_is_refused_with_what_to_do_about_it(key, address, fix):
    line = refusal(with_node(**{key: f'"{address}"'}))

    assert line.startswith(
        f"c.toml: nodes[1].{key} must be HOST:PORT or [IPv6]:PORT with a port from 1 to 65535"
    )
    assert line.endswith(f": {fix}")


@pytest.mark.parametrize("address", ["0.0.0.0:7000", "[::]:7000"])
def test_an_address_that_nobody_can_connect_to_belongs_in_listen(address):
    assert refusal(with_node(address=f'"{address}"')).endswith(
        f"got '{address}': put this into listen, and here the address by which the other nodes know this machine"
    )
    assert parse(with_node(listen=f'"{address}"'), "c.toml").nodes[1].listen == address


# What holds between the keys.


def test_two_nodes_with_one_id_are_refused():
    assert refusal(with_node(id="0")) == (
        "c.toml: nodes[1].id must be its own, got 0, which nodes[0] has: give it another"
    )


@pytest.mark.parametrize("address", ["10.0.0.1:7000", "10.0.0.1:07000"])
@pytest.mark.parametrize("key", ["address", "gateway"])
def test_the_address_of_another_node_is_refused_as_address_and_as_gateway(key, address):
    assert refusal(with_node(**{key: f'"{address}"'})) == (
        f"c.toml: nodes[1].{key} must be its own, got '{address}', which nodes[0].address has: give it another port"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Host.example:1", "host.EXAMPLE.:1"),
        ("localhost:1", "127.0.0.1:1"),
        ("[::1]:1", "[0:0::1]:1"),
    ],
)
def test_the_same_address_in_another_spelling_is_the_same(one, other):
    text = TOP + f'[[nodes]]\nid = 0\naddress = "{one}"\n[[nodes]]\nid = 1\naddress = "{other}"\n'

    assert f"nodes[1].address must be its own, got '{other}', which nodes[0].address has" in refusal(text)


def test_the_same_host_with_another_port_is_another_address():
    assert len(parse(with_node(address='"10.0.0.1:7001"'), "c.toml").nodes) == 2


def test_two_nodes_with_one_gateway_are_refused():
    gateway = 'gateway = "10.0.0.9:8000"\n'

    assert refusal(LEAST + gateway + NODE.replace("0.1:", "0.2:").replace("id = 0", "id = 1") + gateway) == (
        "c.toml: nodes[1].gateway must be its own, got '10.0.0.9:8000', which nodes[0].gateway has: give it another "
        "port"
    )


@pytest.mark.parametrize("gateway", ["0.0.0.0:8000", "127.0.0.1:8000", "[::]:8000", "localhost:8000"])
def test_machines_may_have_the_same_gateway_where_each_has_its_own(gateway):
    line = f'gateway = "{gateway}"\n'

    text = LEAST + line + '[[nodes]]\nid = 1\naddress = "10.0.0.2:7000"\n' + line

    assert [node.gateway for node in parse(text, "c.toml").nodes] == [gateway, gateway]


@pytest.mark.parametrize("gateway", ["0.0.0.0:8000", "127.0.0.1:8000"])
@pytest.mark.parametrize("host", ["10.0.0.1", "127.0.0.1"])
def test_nodes_of_one_machine_need_gateways_of_their_own(host, gateway):
    nodes = [
        f'[[nodes]]\nid = {node}\naddress = "{host}:{7000 + node}"\ngateway = "{gateway}"\n'
        for node in (0, 1)
    ]

    assert "nodes[1].gateway must be its own" in refusal(TOP + "".join(nodes))


def test_loopback_addresses_of_a_cluster_on_one_machine_are_told_apart():
    nodes = [
        f'[[nodes]]\nid = {node}\naddress = "127.0.0.{node}:7000"\ngateway = "127.0.0.9:8000"\n'
        for node in (1, 2)
    ]

    assert "nodes[1].gateway must be its own, got '127.0.0.9:8000', which nodes[0].gateway has" in refusal(
        TOP + "".join(nodes)
    )


def test_a_node_that_listens_where_its_gateway_is_is_refused():
    assert refusal(with_node(listen='"0.0.0.0:8000"', gateway='"10.0.0.2:8000"')) == (
        "c.toml: nodes[1].gateway must be its own, got '10.0.0.2:8000', which nodes[1].listen has: give it another port"
    )


def test_the_first_wait_between_attempts_is_not_above_the_longest():
    assert refusal(LEAST + "[timing]\nreconnect_min_s = 3") == (
        "c.toml: timing.reconnect_min_s must be at most timing.reconnect_max_s (2), got 3: lower it, or raise "
        "timing.reconnect_max_s"
    )
    assert parse(LEAST + "[timing]\nreconnect_min_s = 2", "c.toml").timing.reconnect_min_s == 2


@pytest.mark.parametrize(
    ("timings", "problem"),
    [
        (
            "ping_s = 1",
            "detection.contact_s must be at least twice detection.ping_s (1), got 1.25: raise it, or lower "
            "detection.ping_s",
        ),
        (
            "suspect_after_s = 1.4",
            "detection.suspect_after_s must be at least 1.2 times detection.contact_s (1.25), got 1.4: raise it, or "
            "who is cut off would suspect the others before it knows",
        ),
    ],
)
def test_timings_by_which_nodes_would_accuse_each_other_wrongly_are_refused(timings, problem):
    assert refusal(f"{LEAST}[detection]\n{timings}") == f"c.toml: {problem}"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            "voters = [7]",
            "voters must be ids of nodes, got 7, which no node has: correct it, or add the node",
        ),
        ("voters = [0, 0]", "voters must be different, got [0, 0]: name each once"),
        (
            'partition = "continue"\nvoters = [0]',
            'voters decide only where partition is "majority", got "continue": remove one of the two',
        ),
    ],
)
def test_voters_that_could_not_decide_are_refused(keys, problem):
    assert refusal(f"{keys}\n{LEAST}") == f"c.toml: {problem}"


def of(count, **keys):
    nodes = tuple(NodeSettings(id=number, address=f"10.0.0.1:{7000 + number}") for number in range(count))
    return cluster(nodes=nodes, **keys)


def test_all_nodes_vote_as_long_as_each_can_stay_in_contact_with_half_of_them():
    assert of(8).voting == tuple(range(8))
    assert of(21).voting == tuple(range(21))
    assert of(22).voting == tuple(range(9))
    assert of(22, partition="continue").voting is None


def test_more_voters_than_a_node_can_stay_in_contact_with_are_refused():
    with pytest.raises(ConfigError, match="voters must be at most 21 with these timings, got 22: name fewer"):
        parse(dump(of(22, voters=tuple(range(22)))), "c.toml")


# What is written.


def test_only_what_differs_from_the_defaults_is_written():
    settings = cluster(timing=Timing(close_within_s=4.0))

    assert dump(settings) == (
        'cluster = "demo"\n\n[[nodes]]\nid = 0\naddress = "10.0.0.1:7000"\n\n[timing]\nclose_within_s = 4.0\n'
    )


PRINTABLE = st.characters(codec="utf-8").filter(str.isprintable)
WORDS = st.text(PRINTABLE, min_size=1, max_size=100)
PATHS = st.none() | WORDS.filter(lambda path: not path.startswith("~"))
PORTS = st.permutations(range(1, 20))


@st.composite
def clusters(draw):
    ids = draw(st.lists(st.integers(0, (1 << 20) - 1), min_size=1, max_size=6, unique=True))
    ports = iter(draw(PORTS))

    def addresses(*hosts):
        return st.sampled_from(hosts).map(lambda host: f"{host}:{next(ports)}")

    nodes = tuple(
        NodeSettings(
            id=node,
            address=draw(addresses("127.0.0.1", "[::1]", "a.example")),
            listen=draw(st.none() | addresses("0.0.0.0", "[::]")),
            gateway=draw(st.none() | addresses("0.0.0.0", "b.example")),
        )
        for node in ids
    )
    limits = {key.name: st.integers(key.low, key.high) for key in LIMITS}
    seconds = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
    times = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(keys_of(Timing), seconds)))
    waits = sorted(draw(st.tuples(seconds, seconds)))
    return ClusterSettings(
        cluster=draw(WORDS),
        nodes=nodes,
        state_dir=draw(PATHS),
        trace_dir=draw(PATHS),
        limits=Limits(**draw(st.fixed_dictionaries({}, optional=limits))),
        timing=Timing(**times | {"reconnect_min_s": waits[0], "reconnect_max_s": waits[1]}),
    )


@given(clusters())
def test_what_is_written_is_read_as_the_same(settings):
    assert parse(dump(settings), "c.toml") == settings


# Directories.


def test_relative_directories_lie_beside_the_file():
    settings = cluster(state_dir="s", trace_dir="../t")

    assert state_directory(settings, Path("/etc/x/c.toml")) == Path("/etc/x/s")
    assert trace_directory(settings, Path("/etc/x/c.toml")) == Path("/etc/x/../t")


def test_relative_directories_of_a_file_given_by_a_relative_path_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert state_directory(cluster(state_dir="s"), Path("sub/c.toml")) == tmp_path / "sub" / "s"


def test_without_a_file_directories_are_relative_to_where_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert state_directory(cluster(state_dir="s"), None) == tmp_path / "s"


def test_absolute_directories_stay():
    settings = cluster(state_dir="/s", trace_dir="/t")

    assert state_directory(settings, Path("/etc/c.toml")) == Path("/s")
    assert trace_directory(settings, Path("/etc/c.toml")) == Path("/t")


def test_there_is_no_trace_unless_asked_for():
    assert trace_directory(cluster(), Path("/etc/c.toml")) is None


def test_state_is_kept_in_the_home_directory_by_default(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    assert state_directory(cluster(), Path("/etc/c.toml")) == Path("/home/someone/.local/state/vcubeps/demo")


@pytest.mark.parametrize(
    ("value", "base"),
    [("/xdg", "/xdg"), ("", "/home/someone/.local/state"), ("xdg", "/home/someone/.local/state")],
)
def test_the_state_home_of_the_desktop_counts_if_it_is_absolute(monkeypatch, value, base):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_STATE_HOME", value)

    assert state_directory(cluster(), None) == Path(base) / "vcubeps" / "demo"


def test_a_user_without_home_is_asked_for_a_state_directory(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)

    with pytest.raises(ConfigError) as caught:
        state_directory(cluster(), Path("/etc/c.toml"))
    assert str(caught.value) == (
        "/etc/c.toml: state_dir must be given where the user has no home directory, got neither: set state_dir, or HOME"
    )


@given(WORDS)
@example("..")
@example(".")
@example("../x")
@example("a/b")
@example("€" * 100)
def test_any_cluster_name_becomes_one_folder(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", "/xdg")
        directory = state_directory(cluster(cluster=name), None)

    assert Path(os.path.normpath(directory)).parent == Path("/xdg/vcubeps")
    assert len(directory.name) <= 100
    assert directory.name.isascii()


def test_clusters_of_different_names_have_different_folders():
    names = ["a b", "a_b", "a/b", "a%2Fb", ".", "..", "%2E", "é", "€" * 100, "€" * 99 + "x", "€" * 99]

    assert len({state_directory(cluster(cluster=name), None) for name in names}) == len(names)


# The page.


def examples() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", config_page.PAGE.read_text(), re.DOTALL)


def test_the_page_has_the_tables_of_today():
    page = config_page.PAGE.read_text()

    assert page == config_page.renewed(page), "run: python -m vcubeps.net.config_page"


def test_the_page_is_renewed_between_its_marks_only():
    page = f"before\n{config_page.BEGIN}\nold\n{config_page.END}\nafter\n"

    fresh = config_page.renewed(page)

    assert fresh == f"before\n{config_page.BEGIN}\n\n{config_page.tables()}\n{config_page.END}\nafter\n"


def test_an_outdated_page_is_renewed_in_its_file(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(config_page.PAGE.read_text().replace("whole number", "integer"))

    config_page.renew(page)

    assert page.read_text() == config_page.PAGE.read_text()
    assert capsys.readouterr().out == f"renewed {page}\n"


def test_the_tables_show_every_key_with_default_range_and_meaning():
    rows = config_page.tables().split("\n")

    assert (
        "| `batch_items_max` | whole number | 1_024 | 1 to 1_024 | most publications that leave as one batch |"
        in rows
    )
    assert "| `reconnect_max_s` | number | 2.0 | above 0 | longest wait between two attempts |" in rows
    assert "| `id` | whole number | required | 0 to 1_048_575 | its place in the hypercube |" in rows
    keys = [name for section in HOMES for name in section.__struct_fields__]
    assert re.findall(r"^\| `(\w+)`", config_page.tables(), re.MULTILINE) == keys


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_on_the_page_are_cluster_files(number):
    assert len(parse(examples()[number], "example").nodes) == 2


def test_there_are_two_examples_on_the_page():
    assert len(examples()) == 2


def test_the_full_example_sets_every_key_to_something_else_than_its_default():
    written = tomllib.loads(examples()[1])
    settings = parse(examples()[1], "example")

    assert set(written) == set(ClusterSettings.__struct_fields__)
    assert set(written["nodes"][0]) == set(NodeSettings.__struct_fields__)
    for section, default in (
        (settings.limits, Limits()), (settings.timing, Timing()), (settings.detection, Detection()),
    ):  # fmt: skip
        ours, theirs = msgspec.to_builtins(section), msgspec.to_builtins(default)
        assert [name for name in ours if ours[name] == theirs[name]] == []
