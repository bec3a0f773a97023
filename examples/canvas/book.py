"""Order books for two tenants; a signature says with ``set`` whose turn it uses."""

from celery import chain, chord
from tasks import bind, fetch, page


def book(tenant, title, pages):
    """All pages of a book, then its binding."""
    fair = [page.s(title, number).set(partition_key=tenant) for number in range(1, pages + 1)]
    return chord(fair, bind.s(tenant))


orders = [book("acme", "A", 4).delay(), book("bolt", "B", 2).delay()]
first_page = chain(fetch.s("sample"), page.s(1).set(partition_key="bolt")).delay()

for order in (*orders, first_page):
    print(order.get(timeout=30))
