import threading

from otel.ids import span_id_of
from otel.store.base import StallQuery
from otel.store.memory import MemoryStore
from tests.support.builders import a_hop


def test_threads_do_not_disturb_each_other():
    store = MemoryStore()
    errors = []

    def work(name: str) -> None:
        try:
            for i in range(50):
                store.write([a_hop(name, span_id=span_id_of(name, i))], received_ns=i)
                assert len(store.hops_of("req-1")) > i
                store.stalls(StallQuery())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"hop-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert store.stats().hops == 200


def test_each_store_has_a_memory_of_its_own():
    first, second = MemoryStore(), MemoryStore()
    first.write([a_hop()], received_ns=1)

    assert second.hops_of("req-1") == ()
