"""Errors carry their facts, also from one process to another."""

import pickle

import pytest

from vtrr_queue import errors
from vtrr_queue.errors import VTRRError

SAMPLES = [
    errors.ArgumentError("name", "", "a non-empty string"),
    errors.ArgumentTypeError("tasks[1]['weight']", "2", "a number"),
    errors.DuplicateItem(["a", "b"]),
    errors.EnqueueInterrupted(["a"], ["b", "c"]),
    errors.LeaseLost("a"),
    errors.BacklogFull("p", 9, 10, 2),
    errors.NotDurable(["a"], "fsync", "not within 2 s"),
    errors.PayloadError("tasks[0]['args']", "no"),
    errors.UndecodablePayload("no"),
    errors.SchemaMismatch("", "3", "vtrr:files:"),
    errors.ReplyMismatch("lease", "a", b"b"),
    errors.Unavailable("lease", 3, "no"),
    errors.Refused("lease", "NOPERM no right"),
    errors.VTRRError("anything"),
]


def test_every_error_has_a_sample():
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    kinds = {kind for kind in kinds if issubclass(kind, VTRRError)}
    covered = {type(sample) for sample in SAMPLES}
    assert kinds == covered
    for kind in kinds - {VTRRError}:
        assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_a_process_boundary(error):
    """Celery's pool sends what a task raised; what can't be read there ends the worker."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


class Uncooperative(Exception):
    """Can be pickled and not be read again."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


@pytest.mark.parametrize("fact", [lambda: None, Uncooperative(1, 2), object], ids=["a", "b", "c"])
def test_a_fact_that_cannot_cross_is_told_in_words(fact):
    copy = pickle.loads(pickle.dumps(errors.ArgumentError("name", fact, "a string")))
    assert isinstance(copy, ValueError)
    assert copy.argument == "name"
    assert copy.value in (fact, repr(fact))
    assert "name must be a string" in str(copy)
