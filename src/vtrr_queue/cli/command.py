"""What all commands share: their options, the queue they act on, errors and exit codes."""

from __future__ import annotations

import math
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from vtrr_queue.celery.controls import Controls
from vtrr_queue.dead import DeadLetters
from vtrr_queue.engine import NO_TRIGGERS
from vtrr_queue.errors import ArgumentError, ArgumentTypeError, VTRRError
from vtrr_queue.inspector import Inspector
from vtrr_queue.opening import choose_queue, open_engine, queues_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtrr_queue.engine import Engine
    from vtrr_queue.model import Wake

FAILED, WRONG, NOT_FOUND, FINDINGS, DECLINED = 1, 2, 3, 4, 5
"""Exit codes besides 0; they stand in docs/cli.md."""

F = TypeVar("F", bound="Callable[..., Any]")


class Problem(click.ClickException):
    """Ends the command with a message on stderr.

    Args:
        message: What is wrong.
        exit_code: One of the codes above.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = exit_code


class BareQueue(Controls):
    """A queue without its app: nobody sends triggers, so workers find new work when they look.

    Args:
        engine: The queue.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.budget, self.name = engine, NO_TRIGGERS, engine.keys.name
        self._policy_source, self._given = None, {}
        self.dead, self.inspector = DeadLetters(engine), Inspector(engine)

    def send_triggers(self, wake: Wake) -> None:
        """There is no broker to send them to."""

    def reclaim_and_dispatch(self) -> int:
        """Put expired leases back; how many there were."""
        return self.engine.reclaim().count


class Chosen:
    """What the options of a command line chose.

    Args:
        meta: Options of the group and of the command.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self._app, self._url, self._name = meta["vtrr.app"], meta["vtrr.url"], meta["vtrr.name"]
        self.as_json: bool = meta["vtrr.json"]

    @cached_property
    def queue(self) -> Any:
        """A :class:`~vtrr_queue.VTRRQueue`, or a :class:`BareQueue` of the same methods."""
        if self._app is None or self._url:
            return BareQueue(open_engine(self._url, self._name))
        return choose_queue(self._app, self._name)

    @property
    def all(self) -> list[Any]:
        """The chosen queue, or all of the app when none was chosen."""
        if self._app is None or self._url or self._name is not None:
            return [self.queue]
        return list(queues_of(self._app).values()) or [self.queue]

    @property
    def has_app(self) -> bool:
        """Whether the queue is one of an app."""
        return not isinstance(self.queue, BareQueue)


class Guarded(click.Command):
    """A command whose errors name what is wrong and end with a documented code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except (ArgumentError, ArgumentTypeError) as exc:
            raise Problem(str(exc), WRONG) from exc
        except VTRRError as exc:
            raise Problem(str(exc), FAILED) from exc
        except BrokenPipeError:  # as in `vtrr ... | head`
            sys.stderr.close()
            raise SystemExit(FAILED) from None


def command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command; its function gets :class:`Chosen` first."""

    def decorate(function: Callable[..., None]) -> click.Command:
        made = click.command(name, cls=Guarded)(click.pass_context(_choosing(function)))
        made.params += [
            click.Option(["--name", "--queue", "vtrr_name"], metavar="NAME", help="Which queue."),
            click.Option(["--json", "vtrr_json"], is_flag=True, help="Print JSON."),
        ]
        return made

    return decorate


def _choosing(function: Callable[..., None]) -> Callable[..., None]:
    def run(
        ctx: click.Context, vtrr_name: str | None = None, *, vtrr_json: bool = False, **given: Any
    ) -> None:
        meta = ctx.meta
        meta["vtrr.name"] = vtrr_name if vtrr_name is not None else meta["vtrr.name"]
        meta["vtrr.json"] = vtrr_json or meta["vtrr.json"]
        function(Chosen(meta), **given)

    run.__doc__ = function.__doc__
    params = getattr(function, "__click_params__", None)
    if params:
        run.__click_params__ = params  # type: ignore[attr-defined]
    return run


class Number(click.FloatRange):
    """A number in a range; nan is in none, though click lets it pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read one."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be taken back.

    Raises:
        Problem: The answer was no, or there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Problem(f"{question} Say --yes where nobody can be asked.", WRONG)
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C, or the end of the input
        agreed = False
    if not agreed:
        raise Problem("Nothing was done.", DECLINED)


def not_found(message: str) -> NoReturn:
    """End a command whose object does not exist; nothing was done."""
    raise Problem(message, NOT_FOUND)


yes_option = click.option("--yes", is_flag=True, help="Don't ask.")


def one_of(**given: object) -> None:
    """Check that just one of these options was given.

    Raises:
        Problem: None or several were.
    """
    chosen = [name for name, value in given.items() if value]
    if len(chosen) != 1:
        names = ", ".join(given)
        what = " and ".join(chosen) or "none"
        raise Problem(f"give one of {names}, not {what}", WRONG)
