# SPDX-License-Identifier: Apache-2.0
"""A worker that sends heartbeats by PyPI's sdnotify for ten steps, and then hangs while a thread draws tqdm's bar."""
import threading
import time

import sdnotify
import tqdm

notifier = sdnotify.SystemdNotifier(debug=True)
steps = tqdm.tqdm(total=10**9)


def draw():
    while True:
        steps.update()
        time.sleep(0.05)


threading.Thread(target=draw).start()
for step in range(10):
    notifier.notify(f"WATCHDOG=1\nSTATUS=step {step}")
    time.sleep(0.1)
threading.Event().wait()
