"""One tenant floods the queue, another one comes after it and does not wait for it."""

from tasks import report

flood = report.queue("acme", [{"args": [f"a{number}"]} for number in range(1, 6)])
small = report.queue("bolt", [{"args": ["b1"]}, {"args": ["mail"], "weight": 2}])

for item_id in (*small, *flood):
    print(report.AsyncResult(item_id).get(timeout=30))
