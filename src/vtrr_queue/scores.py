"""A sorted set in memory, for the reference scheduler."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

Score = TypeVar("Score", float, tuple[int, int])


class Scores(Generic[Score]):
    """Member -> score, least first, ties by member: a sorted set."""

    def __init__(self) -> None:
        self.scores: dict[str, Score] = {}
        self._heap: list[tuple[Score, str]] = []

    def __contains__(self, member: str) -> bool:
        return member in self.scores

    def __len__(self) -> int:
        return len(self.scores)

    def set(self, member: str, score: Score) -> None:
        """Add a member or give it another score."""
        self.scores[member] = score
        heappush(self._heap, (score, member))

    def drop(self, member: str) -> Score | None:
        """Remove a member; its score, or None when it was not there."""
        return self.scores.pop(member, None)

    def least(self) -> tuple[Score, str] | None:
        """The member in front and its score."""
        while self._heap:
            score, member = self._heap[0]
            if self.scores.get(member) == score:
                return score, member
            heappop(self._heap)
        return None

    def take(self, most_score: Score, most: int | None = None) -> list[str]:
        """Remove the members up to a score, at most so many, in order."""
        taken: list[str] = []
        while (first := self.least()) and first[0] <= most_score and len(taken) != most:
            del self.scores[first[1]]
            taken.append(first[1])
        return taken
