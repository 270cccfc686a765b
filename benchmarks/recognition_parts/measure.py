"""One measurement in a process of its own.

    python measure.py {nnet3py,vosk} {start,loading,latency,streams,memory,batch,profile} FOLDER SECONDS STREAMS SOUND …

Prints a line of JSON. Both recognizers are given the same bytes in the same blocks, and asked for partial words after
each.
"""
from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

BEGAN = time.perf_counter()
RATE, BLOCK = 16000, 0.1              # samples a second; seconds
BLOCK_BYTES = int(RATE * BLOCK) * 2
SEGMENT = 1.5                         # seconds of silence between recordings
# of sound that goes on for hours: seconds of silence, how loud a recording is, and the noise (of 1 for full scale)
PAUSE, LEVEL, NOISE = (0.2, 4.0), (0.1, 1.0), (1e-4, 1e-2)


class Session(Protocol):
    """A stream of either recognizer."""

    def block(self, data: bytes) -> str:
        """Take sound; the words of the segment so far."""

    def end(self) -> str:
        """All words that were not given in results yet."""


class OurSession:
    """A stream of a nnet3py.Recognizer; results are taken at endpoints."""

    def __init__(self, model: Any) -> None:
        self.stream = model.stream(RATE)
        self.words: list[str] = []

    def block(self, data: bytes) -> str:
        self.stream.accept_waveform(data)
        while self.stream.endpoint:
            self.words.append(self.stream.result().text)
        return str(self.stream.partial)

    def end(self) -> str:
        return " ".join([*self.words, self.stream.finish().text]).strip()


class VoskSession:
    """A KaldiRecognizer of the package vosk; the same."""

    def __init__(self, model: Any) -> None:
        import vosk

        self.recognizer = vosk.KaldiRecognizer(model, RATE)
        self.recognizer.SetWords(True)
        self.words: list[str] = []

    def block(self, data: bytes) -> str:
        if self.recognizer.AcceptWaveform(data):
            self.words.append(json.loads(self.recognizer.Result())["text"])
        return str(json.loads(self.recognizer.PartialResult()).get("partial", ""))

    def end(self) -> str:
        return " ".join([*self.words, json.loads(self.recognizer.FinalResult())["text"]]).strip()


def load(which: str, folder: str) -> Any:
    """The model, and the class of its sessions."""
    if which == "vosk":
        import vosk

        vosk.SetLogLevel(-1)
        return vosk.Model(folder), VoskSession
    import nnet3py

    return nnet3py.Recognizer(folder), OurSession


def read_sound(paths: list[str]) -> bytes:
    """The recordings, 16-bit samples, with silence after each."""
    import wave

    parts = []
    for path in paths:
        with wave.open(path) as file:
            parts += [file.readframes(file.getnframes()), bytes(int(RATE * SEGMENT) * 2)]
    return b"".join(parts)


def blocks(sound: bytes, seconds: float, offset: int = 0) -> Iterator[bytes]:
    """So much sound, over and over again, from a block on."""
    place = offset * BLOCK_BYTES
    twice = sound + sound[:BLOCK_BYTES]
    for _ in range(int(seconds / BLOCK)):
        place %= len(sound)
        yield twice[place:place + BLOCK_BYTES]
        place += BLOCK_BYTES


def varied(paths: list[str], seconds: float) -> Iterator[bytes]:
    """So much sound, of which no part is like another: recordings as they come, louder or not, pauses, noise."""
    import numpy as np

    recordings = [np.frombuffer(read_sound([path]), dtype="<i2") for path in paths]
    rng = np.random.default_rng(0)
    waiting, block = np.zeros(0), BLOCK_BYTES // 2
    for _ in range(int(seconds / BLOCK)):
        while len(waiting) < block:
            recording = recordings[rng.integers(len(recordings))] * rng.uniform(*LEVEL)
            waiting = np.concatenate((waiting, np.zeros(int(RATE * rng.uniform(*PAUSE))), recording))
            waiting += 32768.0 * np.exp(rng.uniform(*np.log(NOISE))) * rng.standard_normal(len(waiting))
        yield np.clip(waiting[:block], -32768, 32767).astype("<i2").tobytes()
        waiting = waiting[block:]


def start(which: str, folder: str, sound: bytes, seconds: float) -> dict[str, Any]:
    """Seconds from the beginning of the process to the first word, the sound being there at once."""
    model, session = load(which, folder)
    loaded = time.perf_counter() - BEGAN
    one = session(model)
    for data in blocks(sound, seconds):
        word = one.block(data)
        if word:
            return {"loaded": loaded, "first_word": time.perf_counter() - BEGAN, "busy": time.process_time(),
                    "word": word}
    return {"loaded": loaded, "first_word": None, "busy": time.process_time(), "word": ""}


def loading(which: str, folder: str, sound: bytes, seconds: float) -> dict[str, Any]:
    """Seconds from the beginning of the process to the loaded model, megabytes then, and what two streams add."""
    model, session = load(which, folder)
    loaded, held, most = time.perf_counter() - BEGAN, resident_parts(), peak()
    sessions = [session(model) for _ in range(2)]
    for data in blocks(sound, seconds):
        for one in sessions:
            one.block(data)
    return {"loaded": loaded, "held": sum(held.values()), "mapped": held["RssFile"], "most": most,
            "streams": sum(resident_parts().values()) - sum(held.values())}


def latency(which: str, folder: str, sound: bytes, seconds: float) -> dict[str, Any]:
    """Milliseconds for each block, fed as fast as possible; and the real-time factor."""
    model, session = load(which, folder)
    warm = session(model)
    for data in blocks(sound, 5.0):
        warm.block(data)
    warm.end()
    one, taken, busy = session(model), [], 0.0
    for data in blocks(sound, seconds):
        began, working = time.perf_counter(), time.process_time()
        one.block(data)
        busy += time.process_time() - working
        taken.append(time.perf_counter() - began)
    words = one.end()
    taken.sort()
    return {"p50": 1e3 * taken[len(taken) // 2], "p99": 1e3 * taken[int(0.99 * len(taken))], "max": 1e3 * taken[-1],
            "factor": sum(taken) / seconds, "busy": busy / seconds, "words": words}


def streams(which: str, folder: str, sound: bytes, seconds: float, count: int) -> dict[str, Any]:
    """Streams in real time: how late the answers to their blocks are, in milliseconds after the block's end."""
    model, session = load(which, folder)
    if which == "nnet3py":
        model.looped.warm_up()
    sessions = [session(model) for _ in range(count)]
    late: list[float] = []
    words = [""] * count
    began = time.perf_counter() + 0.5

    def run(number: int) -> None:
        for turn, data in enumerate(blocks(sound, seconds, 7 * number)):
            due = began + (turn + 1 + number / count) * BLOCK          # when the last of its samples has been spoken
            time.sleep(max(due - time.perf_counter(), 0.0))
            sessions[number].block(data)
            late.append(time.perf_counter() - due)
        words[number] = sessions[number].end()

    busy = time.process_time()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    busy = time.process_time() - busy
    late.sort()
    return {"p50": 1e3 * late[len(late) // 2], "p99": 1e3 * late[int(0.99 * len(late))], "max": 1e3 * late[-1],
            "busy": busy / seconds, "words": " ".join(words)}


def batch(which: str, folder: str, sound: bytes, seconds: float) -> dict[str, Any]:
    """Milliseconds that a chunk of the network takes for each stream, of so many that are computed together."""
    import numpy as np

    from nnet3py.runtime.looped import Chunk

    looped, found = load(which, folder)[0].looped, {}
    rng = np.random.default_rng(0)
    for count in (1, 2, 4, 8):
        states, taken = [looped.new_state() for _ in range(count)], []
        for _ in range(25):
            first, end = looped.frames_of_chunk(states[0].num_chunks)
            frames = rng.standard_normal((end - first, looped.io.input_dim), dtype=np.float32)
            began = time.perf_counter()
            looped.compute_chunks([Chunk(state, frames) for state in states])
            taken.append(time.perf_counter() - began)
        found[str(count)] = 1e3 * sorted(taken[5:])[10] / count
    return found


def memory(which: str, folder: str, paths: list[str], seconds: float) -> dict[str, Any]:
    """Megabytes that the process holds after a tenth of the sound, and at its end."""
    model, session = load(which, folder)
    one, held, count, busy = session(model), [], int(seconds / BLOCK), 0.0
    for number, data in enumerate(varied(paths, seconds)):
        began = time.thread_time()
        one.block(data)
        busy += time.thread_time() - began
        del one.words[:]
        if number == count // 10:
            held.append(resident())
    return {"early": held[0], "late": resident(), "most": peak(),
            "factor": busy / seconds}


def resident() -> float:
    """Megabytes of memory that this process holds now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def resident_parts() -> dict[str, float]:
    """Megabytes of it by kind: RssAnon is this process's own, RssFile can be used by others that map the same files."""
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: int(fields[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile", "RssShmem")}


def peak() -> float:
    """Megabytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure, print."""
    which, what, folder, seconds, count, *paths = sys.argv[1:]
    sound = read_sound(paths)
    if what == "streams":
        found = streams(which, folder, sound, float(seconds), int(count))
    elif what == "profile":
        from profile_stream import profile

        found = profile(folder, list(blocks(sound, float(seconds))), OurSession)
    elif what == "memory":
        found = memory(which, folder, paths, float(seconds))
    else:
        measurement = {"start": start, "loading": loading, "latency": latency, "batch": batch}[what]
        found = measurement(which, folder, sound, float(seconds))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
