"""A Flask app that enqueues, and says what has become of an item."""

from flask import Flask, abort, request
from tasks import thumbnail

web = Flask(__name__)


@web.post("/<tenant>/images")
def add_images(tenant):
    """Enqueue a thumbnail for each path."""
    paths = request.json["paths"]
    if not all(paths):
        abort(400, "each path must have a name")
    return {"ids": thumbnail.queue(tenant, [{"args": [path]} for path in paths])}, 202


@web.get("/items/<item_id>")
def read_item(item_id):
    """State of an item, and its result once there is one."""
    result = thumbnail.AsyncResult(item_id)
    return {"state": result.state, "result": result.result if result.successful() else None}
