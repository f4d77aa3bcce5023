# SPDX-License-Identifier: Apache-2.0
"""A worker of two with JAX, of which rank 1 never comes to the sum that rank 0 waits for."""
import os
import signal

import jax

jax.distributed.initialize(
    f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
    int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))  # fmt: skip

import jax.numpy as jnp  # after initialize


def load_batch():
    print("loading", flush=True)
    signal.pause()


def train():
    ones = jnp.ones((jax.local_device_count(),))
    add = jax.pmap(lambda x: jax.lax.psum(x, "workers"), axis_name="workers")
    jax.block_until_ready(add(ones))
    if jax.process_index() == 1:
        load_batch()
    print("waiting", flush=True)
    jax.block_until_ready(add(ones))


train()
