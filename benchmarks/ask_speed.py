"""How long `Chooser.next` takes, and how long people wait for the server.

Choosing: the median of 30 chosen questions in one process. Objects have vectors of 50 features, or
none. Answers so far are to random questions. Every answer is added, so that every question begins
with a fit.

Waiting: `nearfar ask` about 200 objects with 20 features. Each of 200 people opens the page, then
answers after 1.5 to 4.5 seconds, for 30 seconds, each request with a connection of its own. At the
same time 100 others send a byte of a request every half second and never end it; if they are
disconnected, they come again. Every answer that was confirmed has to be in the file. The stored run
had real-time priority (chrt -r 1), because the machine had other work.

    python benchmarks/ask_speed.py [--toy] [--show] [--load]

docs/reference/ask.md has the table that this prints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import protocol
from nearfar.ask import Chooser, Question
from nearfar.runtime.threads import limited_threads

CASES = [(200, 300, True), (2000, 300, True), (2000, 1000, True)]
CASES += [(200, 1000, False), (2000, 10_000, False)]
"""Objects, answers, and whether there are vectors."""
REPEATS = 30
THINKING, TRICKLE = 3.0, 0.5
"""Mean seconds between a question and its answer, and between two bytes of the slow."""
Row = dict[str, Any]


def measure(n_objects: int, n_answers: int, vectors: bool) -> Row:
    """Return the median times of questions in milliseconds."""
    random = np.random.default_rng(0)
    P = random.normal(size=(n_objects, 3))
    X = random.normal(size=(n_objects, 50)) if vectors else None
    chooser = Chooser(X, n_objects=n_objects, random_share=0, repeat_share=0, random_state=0)
    chooser.random_first = 0

    def answer(objects: tuple[int, ...]) -> str:
        anchor, left, right = P[list(objects)]
        return "left" if np.sum((anchor - left) ** 2) < np.sum((anchor - right) ** 2) else "right"

    for _ in range(n_answers):
        objects = tuple(random.choice(n_objects, 3, replace=False).tolist())
        chooser.add(Question(objects, "random"), answer(objects))
    chooser.learn()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter(), time.process_time()
        question = chooser.next()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        chooser.add(question, answer(question.objects))
    elapsed, used = 1000 * np.median(times, axis=0)
    return {
        "objects": n_objects,
        "answers": n_answers,
        "vectors": vectors,
        "elapsed_ms": round(float(elapsed), 1),
        "cpu_ms": round(float(used), 1),
        "commit": protocol.commit(),
    }


class Crowd:
    """People with pages, and others who send requests that do not end."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.end = port, time.perf_counter() + seconds
        self.waits: list[float] = []
        self.errors = self.disconnected = 0
        self.confirmed: set[str] = set()
        self.random = np.random.default_rng(0)

    async def request(self, method: str, path: str, sent: Row | None = None) -> Row:
        """Return what the server answers, and keep how long that took."""
        body = b"" if sent is None else json.dumps(sent).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(head.encode() + body)
        found = await reader.read()
        self.waits.append(time.perf_counter() - start)
        writer.close()
        self.errors += not found.startswith(b"HTTP/1.1 200")
        content = found.partition(b"\r\n\r\n")[2]
        return json.loads(content) if content.startswith(b"{") else {}

    async def person(self, home: str) -> None:
        """Answer questions."""
        await asyncio.sleep(self.random.uniform(0, THINKING))
        await self.request("GET", home)
        while time.perf_counter() < self.end:
            found = await self.request("GET", f"{home}/questions")
            question = found["questions"][0]["id"]
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * THINKING)
            answer = {"question": question, "answer": str(self.random.choice(["left", "right"]))}
            if (await self.request("POST", f"{home}/answer", answer)).get("stored"):
                self.confirmed.add(question)

    async def slow(self) -> None:
        """Send requests that do not end."""
        while time.perf_counter() < self.end:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            try:
                while time.perf_counter() < self.end:
                    writer.write(b"x")
                    try:
                        await asyncio.wait_for(reader.read(1), TRICKLE)
                    except TimeoutError:
                        continue
                    raise ConnectionError
            except ConnectionError:
                self.disconnected += 1
            writer.close()

    async def run(self, homes: list[str], n_slow: int) -> None:
        """Let everybody go on until the end."""
        people = [self.person(home) for home in homes]
        await asyncio.gather(*people, *(self.slow() for _ in range(n_slow)))


def load(n_people: int, n_slow: int, seconds: float) -> Row:
    """Return how long people wait for the server, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        X = np.random.default_rng(0).normal(size=(200, 20)).round(4)
        lines = ["name," + ",".join(f"f{column}" for column in range(20))]
        lines += [f"o{n}," + ",".join(map(str, row)) for n, row in enumerate(X.tolist())]
        (Path(folder) / "objects.csv").write_text("\n".join(lines))
        command = [sys.executable, "-m", "nearfar.cli", "ask", "objects.csv", "--id", "name"]
        command += ["--port", "0", "--no-browser"]
        command += [word for n in range(n_people) for word in ("--person", f"p{n}")]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        links = [server.stdout.readline().split(": ")[1].strip() for _ in range(n_people)]
        crowd = Crowd(int(links[0].split(":")[2].partition("/")[0]), seconds)
        homes = [f"/a/{link.rpartition('/')[2]}" for link in links]
        before = os.getloadavg()[0]
        asyncio.run(crowd.run(homes, n_slow))
        server.terminate()
        server.communicate()
        with closing(sqlite3.connect(Path(folder) / "judgements.db")) as store:
            kept = {question for (question,) in store.execute("SELECT question FROM answers")}
    waits = 1000 * np.array(crowd.waits)
    return {
        "people": n_people,
        "slow": n_slow,
        "requests": len(waits),
        "errors": crowd.errors,
        "answers": len(crowd.confirmed),
        "lost": len(crowd.confirmed - kept),
        "disconnected": crowd.disconnected,
        "waits_ms": [round(float(np.quantile(waits, q)), 1) for q in (0.5, 0.99, 1.0)],
        "load_average": round(before, 1),
        "commit": protocol.commit(),
    }


def stored() -> list[Row]:
    """Return the raw results."""
    return protocol.stored("ask_speed")


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    lines = ["| objects | vectors | answers so far | CPU ms | elapsed ms |", "|" + " --- |" * 5]
    for row in [row for row in rows if "objects" in row]:
        vectors = "yes" if row["vectors"] else "no"
        cells = [f"{row['objects']:,}", vectors, f"{row['answers']:,}"]
        cells += [f"{row['cpu_ms']:.0f}", f"{row['elapsed_ms']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    heads = ["people", "slow ones", "requests", "refused", "answers", "lost"]
    heads += ["slow ones disconnected", "wait, median ms", "99 %", "longest"]
    lines += ["", f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for row in [row for row in rows if "people" in row]:
        counts = ("people", "slow", "requests", "errors", "answers", "lost", "disconnected")
        cells = [f"{row[name]:,}" for name in counts] + [f"{ms:.0f}" for ms in row["waits_ms"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="one case with few objects")
    parser.add_argument("--show", action="store_true", help="print the table of stored results")
    parser.add_argument("--load", action="store_true", help="measure how long people wait alone")
    options = parser.parse_args()
    if options.show:
        print(table(stored()))
        return
    if options.load:
        rows = [row for row in stored() if "objects" in row]
    else:
        with limited_threads():
            rows = [measure(*case) for case in ([(50, 40, True)] if options.toy else CASES)]
    rows.append(load(4, 4, 4.0) if options.toy else load(200, 100, 30.0))
    if not options.toy:
        protocol.record("ask_speed", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
