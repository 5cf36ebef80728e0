"""SQL tables as sinks: SQLite, DuckDB, and PostgreSQL by ADBC; `sqlite:///path/results.db?table=results`.

Exactly once: rows and the position of the writer are one transaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from wolf_fleet.streaming.brokers.base import missing_client
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks.base import Position, Sink, plain

if TYPE_CHECKING:
    import pyarrow as pa

POSITIONS, INCIDENTS = "wolf_positions", "wolf_incidents"
TEXTS = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE PRECISION", str: "TEXT"}
INCIDENT_COLUMNS = {
    "incident": "BIGINT",
    "key": "TEXT",
    "kind": "TEXT",
    "state": "TEXT",
    "start": "TEXT",
    "end": "TEXT",
    "severity": "DOUBLE PRECISION",
    "confidence": "DOUBLE PRECISION",
    "reason": "TEXT",
    "acknowledged": "BOOLEAN",
}


class SqlSink(Sink):
    """A table of a database of the DB-API; arguments as in `Sink`."""

    mark = "?"  # placeholder of a parameter

    def __init__(self, address: str, writer: str):
        super().__init__(address, writer)
        parts = urlsplit(address)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.table, self._columns = options.get("table", "wolf_results"), list[str]()
        try:
            self._connection = self._connect(unquote(parts.path), address.partition("?")[0])
            with self._transaction() as cursor:
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {POSITIONS} "
                    "(writer TEXT, name TEXT, part BIGINT, row_count BIGINT, PRIMARY KEY (writer, name))"
                )
        except (ModuleNotFoundError, ValueError):
            raise
        except Exception as error:  # each driver has its own
            raise self.error(error) from error

    def _connect(self, path: str, uri: str) -> Any:
        raise NotImplementedError

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        cursor = self._connection.cursor()
        try:
            self._begin(cursor)
            yield cursor
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            cursor.close()

    def _begin(self, cursor: Any) -> None:
        """Begin a transaction, where that is a statement."""

    def _marks(self, count: int) -> str:
        return ", ".join(self.mark if self.mark == "?" else f"${i + 1}" for i in range(count))

    def position(self) -> Position | None:
        """Read the row of this writer."""
        try:
            with self._transaction() as cursor:
                where = self._where(("writer", "name"))
                cursor.execute(f"SELECT part, row_count FROM {POSITIONS}{where}", (self.writer, self.table))
                found = cursor.fetchone()
        except Exception as error:
            raise self.error(error) from error
        return None if found is None else Position(*map(int, found))

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Insert rows and the position as one transaction."""
        try:
            with self._transaction() as cursor:
                self._create(cursor, rows[0])
                self._insert(cursor, rows)
                self._replace(cursor, POSITIONS, {"writer": self.writer, "name": self.table}, after)
        except Exception as error:
            raise self.error(error) from error

    def _replace(self, cursor: Any, table: str, identity: JsonObject, rest: tuple[Any, ...]) -> None:
        cursor.execute(f"DELETE FROM {table}{self._where(tuple(identity))}", tuple(identity.values()))
        values = (*identity.values(), *rest)
        cursor.execute(f"INSERT INTO {table} VALUES ({self._marks(len(values))})", values)

    def _where(self, names: tuple[str, ...]) -> str:
        marks = self._marks(len(names)).split(", ")
        return " WHERE " + " AND ".join(f"{_quoted(name)} = {mark}" for name, mark in zip(names, marks, strict=True))

    def _create(self, cursor: Any, row: JsonObject) -> None:
        if self._columns:
            return
        self._columns = list(row)
        columns = ", ".join(f"{_quoted(name)} {TEXTS.get(type(plain(cell)), 'TEXT')}" for name, cell in row.items())
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(self.table)} ({columns})")

    def _insert(self, cursor: Any, rows: list[JsonObject]) -> None:
        names = ", ".join(map(_quoted, self._columns))
        text = f"INSERT INTO {_quoted(self.table)} ({names}) VALUES ({self._marks(len(self._columns))})"
        cursor.executemany(text, [tuple(plain(row[name]) for name in self._columns) for row in rows])

    def write_incident(self, facts: JsonObject) -> None:
        """Insert or replace the row of an incident."""
        columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in INCIDENT_COLUMNS.items())
        rest = tuple(_text(facts[name]) if name in ("start", "end") else facts[name] for name in INCIDENT_COLUMNS)[1:]
        try:
            with self._transaction() as cursor:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {INCIDENTS} (writer TEXT, {columns})")
                self._replace(cursor, INCIDENTS, {"writer": self.writer, "incident": facts["incident"]}, rest)
        except Exception as error:
            raise self.error(error) from error

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class SqliteSink(SqlSink):
    """A table of an SQLite file, by the standard library."""

    def _connect(self, path: str, uri: str) -> Any:
        import sqlite3

        connection = sqlite3.connect(_file_of(path), timeout=10.0, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        return connection


class DuckDbSink(SqlSink):
    """A table of a DuckDB file; a batch of rows is inserted as one Arrow table."""

    def _connect(self, path: str, uri: str) -> Any:
        try:
            import duckdb
        except ModuleNotFoundError:
            raise missing_client("duckdb", "duckdb") from None
        return duckdb.connect(_file_of(path))

    def _begin(self, cursor: Any) -> None:
        # A cursor of DuckDB is a connection of its own.
        cursor.execute("BEGIN")

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        cursor = self._connection.cursor()
        self._begin(cursor)
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()

    def _insert(self, cursor: Any, rows: list[JsonObject]) -> None:
        cursor.register("wolf_rows", _arrow(rows, self._columns))
        names = ", ".join(map(_quoted, self._columns))
        cursor.execute(f"INSERT INTO {_quoted(self.table)} ({names}) SELECT {names} FROM wolf_rows")
        cursor.unregister("wolf_rows")


class PostgresSink(SqlSink):
    """A table of PostgreSQL by ADBC: `postgresql://user:password@host/database?table=results`."""

    mark = "$"

    def _connect(self, path: str, uri: str) -> Any:
        try:
            from adbc_driver_postgresql import dbapi
        except ModuleNotFoundError:
            raise missing_client("postgresql", "adbc-driver-postgresql") from None
        return dbapi.connect(uri)

    def _insert(self, cursor: Any, rows: list[JsonObject]) -> None:
        cursor.adbc_ingest(self.table, _arrow(rows, self._columns), mode="append")


def _arrow(rows: list[JsonObject], columns: list[str]) -> "pa.Table":
    import pyarrow

    return pyarrow.table({name: [plain(row[name]) for row in rows] for name in columns})


def _file_of(path: str) -> str:
    """Return the file of `sqlite:///results.db` (relative) or `sqlite:////var/results.db` (absolute)."""
    name = path.removeprefix("/")
    if not name:
        raise ValueError("expected an address like sqlite:///FILE?table=NAME; the file is missing")
    return name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: object) -> str | None:
    return None if value is None else str(value)
