"""Streams decoded by the threads of a scheduler: what each finds alone, in the order of what was asked."""
from __future__ import annotations

import asyncio
from concurrent.futures import wait
from typing import Any

import numpy as np
import pytest
from recognition_cases import dialogue, recognizer

from nnet3py.errors import ShapeError, UsageError
from nnet3py.recognition.scheduler import BatchScheduler
from nnet3py.recognition.stream import Stream

BLOCK = 1600
NUM_STREAMS = 6


def blocks(first: int = 0) -> list[np.ndarray]:
    sound = np.roll(dialogue(), -first)
    return [sound[begin:begin + BLOCK] for begin in range(0, len(sound), BLOCK)]


def alone(first: int) -> list[str]:
    """Partial words after every block, and the last result's."""
    stream = recognizer().stream(endpointing=False)
    found = []
    for block in blocks(first):
        stream.accept_waveform(block)
        found.append(stream.partial)
    return [*found, stream.finish().text]


def test_streams_find_what_they_find_alone() -> None:
    starts = [8000 * number for number in range(NUM_STREAMS)]
    with BatchScheduler(NUM_STREAMS) as scheduler:
        streams = [scheduler.add(recognizer().stream(endpointing=False)) for _ in starts]
        futures: list[list[Any]] = [[] for _ in starts]
        for turn in zip(*(blocks(first) for first in starts), strict=True):
            for stream, block, mine in zip(streams, turn, futures, strict=True):
                stream.accept_waveform(block)
                mine.append(stream.partial())
        results = [stream.finish() for stream in streams]
        wait(results)
    together = [[*(future.result() for future in mine), result.result().text]
                for mine, result in zip(futures, results, strict=True)]
    assert together == [alone(first) for first in starts]


def test_what_goes_wrong_is_told_to_who_asked() -> None:
    with BatchScheduler(2) as scheduler:
        fine, bad = (scheduler.add(recognizer().stream()) for _ in range(2))
        wrong = bad.accept_waveform(np.zeros((3, 2), np.int16))
        asked = fine.accept_waveform(np.zeros(BLOCK, np.int16))
        later = bad.finish()
        assert asked.result() is False and isinstance(wrong.exception(), ShapeError)
        assert later.result().text == ""
        assert fine.result().result().text == ""
    with pytest.raises(RuntimeError):
        fine.finish()


def test_shutting_down_waits_for_what_was_handed_in() -> None:
    scheduler = BatchScheduler(1)
    stream = scheduler.add(recognizer().stream())
    futures = [stream.run(lambda one: one.seconds) for _ in range(50)]
    scheduler.shut_down()
    assert [future.result() for future in futures] == [0.0] * 50


def test_futures_can_be_awaited() -> None:
    async def listen() -> str:
        with BatchScheduler(1) as scheduler:
            stream = scheduler.add(recognizer().stream())
            for block in blocks():
                await asyncio.wrap_future(stream.accept_waveform(block))
            return (await asyncio.wrap_future(stream.finish())).text

    alone_stream: Stream = recognizer().stream()
    for block in blocks():
        alone_stream.accept_waveform(block)
    assert asyncio.run(listen()) == alone_stream.finish().text


def test_wrong_numbers() -> None:
    with pytest.raises(UsageError, match="num_threads=-1"):
        BatchScheduler(-1)
