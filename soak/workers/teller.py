"""Transfers between the accounts of one teller, each a transaction that writes both new balances."""

import json
import sys
import time
from functools import partial
from random import Random

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.errors import TransientRefusal
from soak import bank
from soak.clients import connect
from soak.clients.client import PATIENCE_SECONDS, TransactionalClient
from soak.clients.own import read_committed
from soak.txn_history import Place, Write
from soak.workers.notes import READY, fail, note, run_transaction

ABORTED_SHARE = 0.15
PAUSE_SECONDS_MAX = 0.004
AMOUNT_MAX = 20


def run(client: TransactionalClient, desk: bank.Desk, *, bootstrap: str, name: str, seed: str) -> None:
    """Until somebody ends it."""
    chance = Random(seed)
    client.init()
    balances = _read_balances(desk, bootstrap)
    note(READY)
    number = 0
    while True:
        changed = _transfer(chance, desk, balances) if balances else desk.opening_balances()
        tag = f"{name}.{number}"
        number += 1
        writes = _writes(desk, tag, changed)
        is_aborted = chance.random() < ABORTED_SHARE
        if run_transaction(client, tag, writes, partial(client.send, writes), is_aborted=is_aborted):
            balances = {**balances, **changed}
        time.sleep(chance.random() * PAUSE_SECONDS_MAX)


def _transfer(chance: Random, desk: bank.Desk, balances: dict[str, int]) -> dict[str, int]:
    """Between an account of even and one of odd number: of two partitions, one in each."""
    giver, taker = chance.choice(desk.accounts[::2]), chance.choice(desk.accounts[1::2])
    if chance.random() < 0.5:
        giver, taker = taker, giver
    amount = chance.randrange(1, AMOUNT_MAX)
    return {giver: balances[giver] - amount, taker: balances[taker] + amount}


def _writes(desk: bank.Desk, tag: str, changed: dict[str, int]) -> list[Write]:
    entries = [
        bank.Entry(desk.teller, tag, number, len(changed), account, balance)
        for number, (account, balance) in enumerate(changed.items())
    ]
    return [Write(desk.place_of(entry.account), entry.encode()) for entry in entries]


def _read_balances(desk: bank.Desk, bootstrap: str) -> dict[str, int]:
    """What read_committed shows once it shows all that there is now.

    Another teller's open transaction may hide our own last one behind it: until it is decided, we do not know.
    """
    balances: dict[str, int] = {}
    with Cluster(bootstrap, patience_s=PATIENCE_SECONDS) as cluster:
        for place in desk.places:
            for record in read_committed(cluster, place, end=_await_stable(cluster, place)):
                entry = bank.Entry.decode(record.value)
                if entry.teller == desk.teller:
                    balances[entry.account] = entry.balance
    return balances


def _await_stable(cluster: Cluster, place: Place) -> int:
    wanted = {place.partition: LATEST}
    end = list_offsets(cluster, place.topic, wanted)[place.partition]
    patience = cluster.patience()
    while (
        list_offsets(cluster, place.topic, wanted, isolation=Isolation.READ_COMMITTED)[place.partition] < end
    ):
        patience.wait(TransientRefusal(f"{place} is not stable up to {end}"))
    return end


def main() -> None:
    """The arguments are one JSON object."""
    told = json.loads(sys.argv[1])
    try:
        client = connect(told["client"], told["bootstrap"], told["transactional_id"])
        desk = bank.Desk(teller=told["teller"], topic=told["topic"], partitions=told["partitions"])
        run(client, desk, bootstrap=told["bootstrap"], name=told["name"], seed=told["seed"])
    except BaseException as failure:  # whatever a client raises is part of the history
        fail(failure)


if __name__ == "__main__":
    main()
