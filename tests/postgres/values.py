"""Which values of each type are worth carrying? Seeded random ones, edges, and the nasty ones.

Each kind makes the text that Postgres parses; the server decides what it means.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass

Make = Callable[[random.Random], str]


@dataclass(frozen=True)
class Kind:
    """A column of a type and where its values come from. `since`: the first major version with it."""

    type: str
    make: Make
    since: int = 13


def one_of(*values: str) -> Make:
    return lambda rng: rng.choice(values)


def integer(bits: int) -> Make:
    def make(rng: random.Random) -> str:
        top = 1 << (bits - 1)
        return str(
            rng.choice([-top, top - 1, 0, -1, rng.randrange(-top, top), rng.randint(-99, 99)])
        )

    return make


def unsigned(bits: int) -> Make:
    return lambda rng: str(rng.choice([0, 1, (1 << bits) - 1, rng.randrange(1 << bits)]))


def floating(rng: random.Random) -> str:
    special = ["NaN", "Infinity", "-Infinity", "0", "-0", "1e-37", "3.4e38"]
    return rng.choice([*special, repr(rng.uniform(-1e6, 1e6)), f"{rng.gauss(0, 1):.6e}"])


def numeric(precision: int, scale: int, *, special: tuple[str, ...] = ("NaN",)) -> Make:
    def make(rng: random.Random) -> str:
        if special and rng.random() < 0.05:
            return rng.choice(special)
        digits = rng.randint(1, precision)
        whole = str(rng.randrange(10**digits)).rjust(scale + 1, "0")
        text = f"{whole[: len(whole) - scale]}.{whole[len(whole) - scale :]}" if scale else whole
        return rng.choice(["", "-"]) + text

    return make


_LETTERS = "abcXYZ 012 äßñ日本語🚚'\"\\,{}()[]\t\r%;:|NULL"


def words(limit: int) -> Make:
    return lambda rng: "".join(rng.choices(_LETTERS, k=rng.randint(0, limit)))


def document(rng: random.Random, depth: int = 2) -> object:
    leaves = [None, True, rng.randint(-(10**12), 10**12), rng.random(), words(8)(rng)]
    if depth == 0 or rng.random() < 0.4:
        return rng.choice(leaves)
    if rng.random() < 0.5:
        return [document(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {words(4)(rng): document(rng, depth - 1) for _ in range(rng.randint(0, 3))}


def as_json(rng: random.Random) -> str:
    return json.dumps(document(rng), ensure_ascii=rng.random() < 0.5)


def as_bytes(rng: random.Random) -> str:
    return "\\x" + rng.randbytes(rng.randint(0, 20)).hex()


def as_uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


_DATES = ("infinity", "-infinity", "0001-01-01", "0001-12-31 BC", "4713-01-01 BC", "1970-01-01")


def date(rng: random.Random) -> str:
    plain = f"{rng.randint(1, 9999):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return rng.choice(
        [*_DATES, "5874897-12-31", f"{rng.randint(1, 4000):04}-03-04 BC", *[plain] * 12]
    )


def timestamp(rng: random.Random) -> str:
    edges = [
        "infinity",
        "-infinity",
        "294276-12-31 23:59:59.999999",
        "294247-01-10 04:00:54.775807",
    ]
    edges += [
        "294247-01-10 04:00:54.775808",
        "0001-12-31 23:59:59.999999 BC",
        "0001-01-01 00:00:00",
    ]
    day = f"{rng.randint(1, 9999):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    plain = f"{day} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.uniform(0, 59.99):09.6f}"
    return rng.choice([*edges, *[plain] * 12])


def time_of_day(rng: random.Random) -> str:
    return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.uniform(0, 59.9):09.6f}"


def interval(rng: random.Random) -> str:
    parts = [f"{rng.randint(-99, 99)} {unit}" for unit in ("years", "mons", "days", "hours")]
    return " ".join([*rng.sample(parts, rng.randint(1, 4)), f"{rng.uniform(-9, 9):.6f} secs"])


def span(make: Make, order: Callable[[str], float]) -> Make:
    def make_range(rng: random.Random) -> str:
        low, high = sorted((make(rng), make(rng)), key=order)
        return rng.choice(["empty", f"[{low},{high})", f"({low},]", f"[{low},{high}]", "(,)"])

    return make_range


int_range = span(lambda rng: str(rng.randint(-999, 999)), float)


def several(make: Make) -> Make:
    return lambda rng: "{" + ",".join(make(rng) for _ in range(rng.randint(0, 3))) + "}"


def array(make: Make) -> Make:
    """One dimension mostly; empty, with NULLs, with another lower bound, and of two dimensions."""

    def element(rng: random.Random) -> str:
        if rng.random() < 0.15:
            return "NULL"
        return '"' + make(rng).replace("\\", "\\\\").replace('"', '\\"') + '"'

    def make_array(rng: random.Random) -> str:
        values = [element(rng) for _ in range(rng.choice([0, 1, 2, 5]))]
        plain = "{" + ",".join(values) + "}"
        if values and rng.random() < 0.1:
            return f"{{{plain},{plain}}}"
        return f"[5:{len(values) + 4}]={plain}" if values and rng.random() < 0.1 else plain

    return make_array


def matrix(rng: random.Random) -> str:
    rows = ["{" + ",".join(str(rng.randint(0, 9)) for _ in range(2)) + "}" for _ in range(3)]
    return "{" + ",".join(rows) + "}"


def pair(rng: random.Random) -> str:
    return f'({rng.randint(0, 9)},"{rng.choice(["a", "b c", "ü"])}")'


def address(rng: random.Random) -> str:
    four = ".".join(str(rng.randrange(256)) for _ in range(4))
    return rng.choice([four, "2001:db8::1", "::ffff:1.2.3.4"])


def network(rng: random.Random) -> str:
    return rng.choice([f"10.{rng.randrange(256)}.0.0/16", "2001:db8::/32", "1.2.3.4/32"])


def bits(low: int, high: int) -> Make:
    return lambda rng: "".join(rng.choices("01", k=rng.randint(low, high)))


def hexes(count: int) -> Make:
    return lambda rng: ":".join(f"{rng.randrange(256):02x}" for _ in range(count))


mood = one_of("sad", "ok", "so so", "happy")

# What a fresh database needs for the types below.
SETUP = """
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'so so', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN amount AS numeric(12,2);
CREATE DOMAIN "big amount" AS amount;
CREATE DOMAIN moment AS timestamptz;
CREATE DOMAIN label AS varchar(20);
CREATE DOMAIN numbers AS int[];
"""

KINDS = (
    Kind("boolean", one_of("t", "f")),
    Kind("smallint", integer(16)),
    Kind("integer", integer(32)),
    Kind("bigint", integer(64)),
    Kind("oid", unsigned(32)),
    Kind("xid", unsigned(32)),
    Kind("xid8", unsigned(64)),
    Kind("real", floating),
    Kind("double precision", floating),
    Kind("numeric", numeric(60, 20)),
    Kind("numeric", one_of("Infinity", "-Infinity", "NaN", "1e400", "-1e-30", "5"), since=14),
    Kind("numeric(12,2)", numeric(12, 2)),
    Kind("numeric(38,10)", numeric(38, 10)),
    Kind("numeric(38,0)", numeric(38, 0)),
    Kind("numeric(5,5)", numeric(5, 5)),
    Kind("numeric(50,3)", numeric(50, 3)),
    Kind("numeric(3,-2)", numeric(5, 0, special=()), since=15),
    Kind("numeric(2,4)", one_of("0.0099", "-0.0001", "0.00123", "NaN"), since=15),
    Kind("text", words(30)),
    Kind("varchar(20)", words(20)),
    Kind("char(7)", one_of("a", "abc", "ä ", "", "1234567")),
    Kind("name", words(9)),
    Kind('"char"', one_of("a", "Z", "")),
    Kind("citext", words(9)),
    Kind("bytea", as_bytes),
    Kind("json", as_json),
    Kind("jsonb", as_json),
    Kind("jsonpath", one_of("$.a", "$[*] ? (@ > 1)", '$."b c"')),
    Kind("uuid", as_uuid),
    Kind("date", date),
    Kind("timestamp", timestamp),
    Kind("timestamp(3)", timestamp),
    Kind("timestamptz", timestamp),
    Kind("time", time_of_day),
    Kind("timetz", lambda rng: time_of_day(rng) + rng.choice(["+00", "-08:30", "+15:59"])),
    Kind("interval", interval),
    Kind("inet", address),
    Kind("cidr", network),
    Kind("macaddr", hexes(6)),
    Kind("macaddr8", hexes(8)),
    Kind("bit(5)", bits(5, 5)),
    Kind("varbit", bits(0, 40)),
    Kind("xml", one_of("<a>ü</a>", "<b x='1'/>", "text")),
    Kind("tsvector", one_of("'a':1 'b':2A", "", "'it''s'")),
    Kind("tsquery", one_of("a & b", "!c", "'x' <-> 'y'")),
    Kind("money", one_of("12.34", "-1,234.50", "0")),
    Kind("pg_lsn", one_of("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF")),
    Kind("pg_snapshot", one_of("10:20:10,14,15", "1:1:")),
    Kind("tid", one_of("(0,1)", "(4294967295,65535)")),
    Kind("regclass", one_of("pg_class", "0", "99999999")),
    Kind("int2vector", one_of("", "1 2", "-3")),
    Kind("oidvector", one_of("", "1 2")),
    Kind("point", one_of("(1,2)", "(-1.5,1e10)")),
    Kind("box", one_of("(1,1),(0,0)")),
    Kind("path", one_of("[(0,0),(1,2)]", "((0,0),(1,2))")),
    Kind("polygon", one_of("((0,0),(1,2),(2,0))")),
    Kind("circle", one_of("<(0,0),5>")),
    Kind("line", one_of("{1,2,3}")),
    Kind("lseg", one_of("[(0,0),(1,2)]")),
    Kind("int4range", int_range),
    Kind("int8range", int_range),
    Kind("numrange", int_range),
    Kind("daterange", one_of("[2020-01-01,2021-01-01)", "(,infinity)", "empty")),
    Kind("tstzrange", one_of("[2020-01-01,)", "empty", "(-infinity,0044-03-15 BC)")),
    Kind("int4multirange", several(int_range), since=14),
    Kind("mood", mood),
    Kind("pair", pair),
    Kind("amount", numeric(12, 2)),
    Kind('"big amount"', numeric(12, 2)),
    Kind("moment", timestamp),
    Kind("label", words(20)),
    Kind("numbers", array(integer(32))),
    Kind("hstore", one_of("a=>1", '"x y"=>NULL', "")),
    Kind("boolean[]", array(one_of("t", "f"))),
    Kind("smallint[]", array(integer(16))),
    Kind("integer[]", array(integer(32))),
    Kind("bigint[]", array(integer(64))),
    Kind("oid[]", array(unsigned(32))),
    Kind("real[]", array(floating)),
    Kind("double precision[]", array(floating)),
    Kind("numeric[]", array(numeric(60, 20))),
    Kind("numeric(12,2)[]", array(numeric(12, 2))),
    Kind("text[]", array(words(8))),
    Kind("varchar(8)[]", array(words(8))),
    Kind("bytea[]", array(as_bytes)),
    Kind("jsonb[]", array(as_json)),
    Kind("uuid[]", array(as_uuid)),
    Kind("date[]", array(date)),
    Kind("timestamp[]", array(timestamp)),
    Kind("timestamptz[]", array(timestamp)),
    Kind("interval[]", array(interval)),
    Kind("mood[]", array(mood)),
    Kind("pair[]", array(pair)),
    Kind("amount[]", array(numeric(12, 2))),
    Kind("label[]", array(words(8))),
    Kind("int4range[]", array(int_range)),
    Kind("integer[][]", matrix),
)
