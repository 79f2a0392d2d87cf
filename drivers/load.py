"""Asks a primary that Sentinels name, by redis-py, until its standard input ends.

Its one argument is JSON, see load in drivers_test.go, which also says what it
prints: a line a call.
"""
import json
import random
import sys
import threading
import time

from redis.sentinel import Sentinel

load = json.loads(sys.argv[1])
sys.stdout.reconfigure(line_buffering=True)
within = load["timeout_ms"] / 1000
sentinel = Sentinel([tuple(address) for address in load["sentinels"]], socket_timeout=within)
primary = sentinel.master_for(
    load["name"],
    password=load["password"] or None,
    socket_timeout=within,
    retry=None,  # it might debit twice
)
ended = threading.Event()


def ask():
    while not ended.is_set():
        key, rate, burst = random.choice(load["keys"])
        sent = time.time_ns()
        try:
            answer = str(primary.execute_command("RL.ACQUIRE", key, rate, burst, sent // 1_000_000)[0])
        except Exception as error:  # whatever the driver says, the next call is its next chance
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        sys.stdout.write(f"{sent // 1000} {time.time_ns() // 1000} {key} {answer}\n")  # in one piece: there are other threads
        time.sleep(load["pause_ms"] / 1000)


workers = [threading.Thread(target=ask) for _ in range(load["workers"])]
for worker in workers:
    worker.start()
sys.stdin.read()
ended.set()
for worker in workers:
    worker.join()
