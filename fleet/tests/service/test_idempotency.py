"""Stored responses: the oldest are deleted first."""

from wolf_fleet.service import idempotency
from wolf_fleet.service.idempotency import IdempotencyStore


def test_the_oldest_ids_are_deleted_first(monkeypatch):
    monkeypatch.setattr(idempotency, "MAX_IDS", 3)
    store = IdempotencyStore()
    for number in range(5):
        store.add(f"id {number}", b"body", {"number": number})
    assert len(store) == 3
    assert [store.find(f"id {number}", b"body") for number in (0, 1)] == [None, None]
    assert [store.find(f"id {number}", b"body") for number in (2, 3, 4)] == [{"number": i} for i in (2, 3, 4)]
