"""Transcripts of files as text, subtitles or JSON, in the formats of the program vosk-transcriber."""
from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.foreign_files import FULL_SCALE
from nnet3py.io.streams import write_text
from nnet3py.recognition.sound import open_sound
from nnet3py.vosk.recognizer import KaldiRecognizer, Model, subtitles

_BLOCK_SECONDS = 0.125
KINDS = ("txt", "srt", "json")

Results = list[dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """Sound file to transcribe, and the path of its transcript ("" for standard output)."""

    sound: Path
    output: str


def tasks(source: str, output: str, kind: str) -> list[Task]:
    """List the tasks for a file, or for all files of a folder with transcripts in the folder ``output``.

    Raises Nnet3Error if the file or folder ``source`` does not exist.
    """
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        return [Task(file, str(Path(output, file.stem).with_suffix(f".{kind}"))) for file in files]
    if not path.is_file():
        raise Nnet3Error(f"there is no file or folder {source}")
    return [Task(path, output)]


def blocks(path: Path) -> tuple[float, Iterator[bytes]]:
    """Return the sample rate in Hz, and the sound in blocks of 16-bit samples of one channel.

    Raises Nnet3Error for an unreadable file.
    """
    sound = open_sound(str(path))
    size = max(1, int(sound.rate * _BLOCK_SECONDS))

    def samples() -> Iterator[bytes]:
        for block in sound.blocks():
            values = np.clip(np.rint(block * FULL_SCALE), -32768, 32767).astype("<i2")
            for first in range(0, len(values), size):
                yield values[first:first + size].tobytes()

    return sound.rate, samples()


def recognized(model: Model, path: Path) -> Results:
    """Recognize a file; return the results of its utterances, with words."""
    rate, sound = blocks(path)
    recognizer = KaldiRecognizer(model, rate)
    recognizer.SetWords(True)
    results = [json.loads(recognizer.Result()) for block in sound if recognizer.AcceptWaveform(block)]
    return [*results, json.loads(recognizer.FinalResult())]


def recognized_by_server(address: str, path: Path) -> Results:
    """Recognize a file by a server with vosk-server's protocol. Raises Nnet3Error if the server does not answer."""
    return asyncio.run(_conversation(address, path))


async def _conversation(address: str, path: Path) -> Results:
    from nnet3py.recognition.server.server import require_websockets

    require_websockets()
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    rate, sound = blocks(path)
    results = []
    try:
        async with connect(address) as server:
            await server.send(json.dumps({"config": {"sample_rate": rate, "words": True}}))
            for block in sound:
                await server.send(block)
                results.append(json.loads(await server.recv()))
            await server.send('{"eof" : 1}')
            results.append(json.loads(await server.recv()))
    except (OSError, WebSocketException) as error:
        raise Nnet3Error(f"{address} does not answer: {error}", "nnet3py serve starts a server") from None
    return [result for result in results if "partial" not in result]


def formatted(results: Results, kind: str) -> str:
    """Format results as ``kind``, one of KINDS: a line for each utterance, subtitles, or JSON."""
    if kind == "srt":
        return subtitles(results)
    if kind == "json":
        return json.dumps(_monologues(results), ensure_ascii=False)
    return "".join(f"{result['text']}\n" for result in results if result.get("text"))


def _monologues(results: Results) -> dict[str, Any]:
    monologues = []
    for result in results:
        words = result.get("result")
        if words:
            terms = [{"confidence": word["conf"], "start": word["start"], "end": word["end"], "text": word["word"],
                      "type": "WORD"} for word in words]
            monologues.append({"speaker": {"id": "unknown", "name": None}, "start": words[0]["start"],
                               "end": words[-1]["end"], "terms": terms})
    return {"schemaVersion": "2.0", "monologues": monologues,
            "text": [result["text"] for result in results if result.get("text")]}


def transcribe(work: list[Task], recognize: Callable[[Path], Results], kind: str, num_threads: int,
               report: Callable[[Task, Nnet3Error | None], None]) -> None:
    """Transcribe files in ``num_threads`` threads; ``report`` is called after each task, with its error or None."""
    with ThreadPoolExecutor(max(1, min(num_threads, len(work)))) as threads:
        for task, future in [(task, threads.submit(recognize, task.sound)) for task in work]:
            try:
                write_text(task.output or "-", formatted(future.result(), kind))
            except Nnet3Error as error:
                report(task, error)
            else:
                report(task, None)
