"""Processes that reserve, extend, commit and abort at random until each is killed.

The full run, from the folder of the tests (about five minutes):

    python -m evidence.ledger_crowd LEDGER --processes 8 --seconds 15 --rounds 20
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from insular.errors import BudgetExceededError, LedgerError, LedgerUnavailableError
from insular.evidence.ledger import Amount, Entry, Ledger, chain

CAPS = {
    "everyone": ("4", "4e-5", ""),
    "eu": ("3", "3e-5", "region"),
    "us": ("2.5", "3e-5", "region"),
}


def amount(draw: random.Random, *, most: Decimal) -> Amount:
    """A random amount with up to 12 digits, up to a bound."""
    digits = draw.randint(0, 12)
    part = Decimal(draw.randint(0, 10**digits)).scaleb(-digits)
    return Amount.of(format(part * most, "f"), Decimal(draw.randint(0, 9)).scaleb(-7))


def work(where: str, acks: Path, *, seed: int, parent: int) -> None:
    """One process: each acknowledged entry is one line, written before the next operation.

    It never ends by itself, so that whoever starts it decides at which moment it dies.
    """
    draw, ledger = random.Random(seed), Ledger(where, wait_s=120)
    mine = {one.name: one.charge for one in ledger.status().open_releases}
    with open(acks, "ab", buffering=0) as log:
        for number in itertools.count():
            if os.getppid() != parent:  # nobody is left to kill it
                return
            kind = draw.choice(("reserve", "reserve", "extend", "commit", "abort"))
            kind = kind if mine else "reserve"
            name = draw.choice(sorted(mine)) if kind != "reserve" else f"{seed}/{number}"
            try:
                if kind == "reserve":
                    wanted = amount(draw, most=Decimal("0.8"))
                    receipt = ledger.reserve(
                        name, population=draw.choice(sorted(CAPS)), amount=wanted
                    )
                    mine[name] = wanted
                elif kind == "extend":
                    more = amount(draw, most=Decimal("0.1"))
                    receipt = ledger.extend(name, amount=more)
                    mine[name] = mine[name].plus(more)
                elif kind == "commit":  # little is spent, so that later rounds find room
                    spent = mine[name].epsilon.scaleb(-3)
                    receipt = ledger.commit(name, amount=Amount.of(format(spent, "f"), "0"))
                else:
                    receipt = ledger.abort(name, reason="the crowd moved on")
            except LedgerUnavailableError as error:
                log.write(f"fault {error}\n".encode())
                continue
            except BudgetExceededError:
                log.write(b"refused\n")
                continue
            except LedgerError:  # another process resolved it, or nothing was ever reserved
                mine.pop(name, None)
                continue
            if kind in ("commit", "abort"):
                mine.pop(name, None)
            log.write(f"ack {receipt.head}\n".encode())


def run_round(where: str, folder: Path, *, processes: int, seconds: float, seed: int) -> int:
    """Start them and kill each at its random moment; the number that were killed: all of them."""
    draw = random.Random(seed)
    fork = multiprocessing.get_context("fork")
    crowd = [
        fork.Process(
            target=work,
            args=(where, folder / f"acks-{seed}-{i}"),
            kwargs={"seed": seed * 1000 + i, "parent": os.getpid()},
        )
        for i in range(processes)
    ]
    started = time.monotonic()
    for process in crowd:
        process.start()
    moments = sorted(
        ((draw.uniform(0.02, seconds), process) for process in crowd), key=lambda pair: pair[0]
    )
    for moment, process in moments:
        time.sleep(max(0.0, moment - (time.monotonic() - started)))
        process.kill()
    for process in crowd:
        process.join()
    return sum(process.exitcode == -signal.SIGKILL for process in crowd)


def overspent(entries: tuple[Entry, ...]) -> list[str]:
    """The entries after which a unit is charged above a cap, by an independent sum."""
    charges: dict[str, tuple[str, Fraction, Fraction]] = {}
    totals = {name: [Fraction(0), Fraction(0)] for name in CAPS}
    found = []
    for entry in entries[1 + len(CAPS) :]:
        population, epsilon, delta = charges.get(
            entry.release, (entry.population, Fraction(0), Fraction(0))
        )
        stated = (Fraction(entry.amount.epsilon), Fraction(entry.amount.delta))
        grown = entry.kind in ("reserve", "extend")
        after = (epsilon + stated[0], delta + stated[1]) if grown else stated
        totals[population][0] += after[0] - epsilon
        totals[population][1] += after[1] - delta
        charges[entry.release] = (population, *after)
        for i in range(2):
            both = totals["everyone"][i]
            for name in ("eu", "us"):
                cap = min(Fraction(CAPS["everyone"][i]), Fraction(CAPS[name][i]))
                if both + totals[name][i] > cap:
                    found.append(f"entry {entry.number}: {name}")
    return found


def check(where: str, folder: Path) -> dict[str, object]:
    """What is true after a round."""
    ledger = Ledger(where, wait_s=120)
    entries = ledger.history(last=10**9)
    heads = {chain.head_of(one.number, chain.digest(chain.written(one))) for one in entries}
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    acks = [line.removeprefix("ack ") for line in lines if line.startswith("ack ")]
    verification = ledger.verify()
    return {
        "entries": len(entries),
        "acknowledged": len(acks),
        "lost": sorted(set(acks) - heads),
        "overspent": overspent(entries),
        "faults": [*verification.faults, *(line for line in lines if line.startswith("fault"))],
        "refused": lines.count("refused"),
    }


def main() -> None:
    """Run rounds, print one JSON line for each, exit with 1 at the first fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger")
    for name, value in (("processes", 8), ("rounds", 20), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=15.0, help="longest life of a process")
    asked = parser.parse_args()
    for name, (epsilon, delta, partition) in CAPS.items():
        Ledger(asked.ledger).declare(
            name,
            unit="owner",
            relation="add_or_remove_one",
            cap=Amount.of(epsilon, delta),
            partition=partition,
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(asked.rounds):
            killed = run_round(
                asked.ledger,
                folder,
                processes=asked.processes,
                seconds=asked.seconds,
                seed=asked.seed * 1000 + number,
            )
            result = {"round": number, "killed": killed, **check(asked.ledger, folder)}
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()
            alone = killed < asked.processes  # one ended by itself: it failed
            if alone or result["lost"] or result["overspent"] or result["faults"]:
                sys.exit(1)


if __name__ == "__main__":
    main()
