"""What `apply_async` is given beside the arguments is refused by name, before Redis is touched."""

import pytest

from tests.callers import define, make_queue
from vtrr_queue import ArgumentError, ArgumentTypeError, DuplicateItem, Engine, PayloadError
from vtrr_queue.payload import decode


@pytest.fixture
def task(redis_client):
    return define(make_queue(redis_client))


WRONG = {
    "link": ({"link": "other"}, ArgumentTypeError, "link must be a signature, .* not 'other'"),
    "links": ({"link": [{"task": "t"}, 5]}, ArgumentTypeError, "link must be .* not 5"),
    "link_error": ({"link_error": {"x": 1}}, ArgumentTypeError, "link_error must be a signature"),
    "headers": ({"headers": {"a": object()}}, PayloadError, "headers cannot be serialised: Object"),
    "serializer": ({"serializer": "no"}, ArgumentError, "serializer must be one .* not 'no'"),
    "compression": ({"compression": "no"}, ArgumentError, "compression .*gzip, .* not 'no'"),
}


@pytest.mark.parametrize(("options", "error", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_named(redis_client, task, options, error, said):
    with pytest.raises(error, match=f"^{said}"):
        task.apply_async((1,), partition_key="a", **options)
    assert redis_client.dbsize() == 0


def test_headers_do_not_make_another_item_of_it(redis_client, task):
    """Neither its id nor its task; what else they say is kept."""
    headers = {"id": "other", "task": "other", "tenant": 5}
    result = task.apply_async((1,), partition_key="a", task_id="mine", headers=headers)
    assert result.id == "mine"
    (lease,) = Engine(redis_client, "files").lease().items
    stored = decode(lease.body)
    assert (lease.item_id, stored.task_name) == ("mine", task.name)
    assert stored.headers == {"tenant": 5}


def test_an_id_that_is_twice_in_one_call_is_said_to_be(redis_client, task):
    with pytest.raises(DuplicateItem, match=r"^more than once in this call: 'i'$"):
        task.queue("a", [{"id": "i"}, {"id": "i"}], on_duplicate="error")
    assert redis_client.dbsize() == 0


@pytest.mark.parametrize(
    "item_id", [5, None, "", "x" * 70_000], ids=["int", "None", "empty", "long"]
)
def test_the_position_of_what_is_no_id_is_refused(task, item_id):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^item_id must be"):
        task.position(item_id)
