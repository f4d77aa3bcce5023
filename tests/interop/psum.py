# SPDX-License-Identifier: Apache-2.0
"""Adds a number of each process with JAX. The coordinator is rank 0, as docs/jax.md describes."""
import os
import sys

import jax

jax.distributed.initialize(
    f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
    int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))  # fmt: skip

from jax.experimental import multihost_utils  # after initialize
import jax.numpy as jnp

mine = jnp.full((jax.local_device_count(),), float(jax.process_index() + 1))
sums = jax.pmap(lambda x: jax.lax.psum(x, "workers"), axis_name="workers")(mine)
# At once: torchrun's workers share the file.
sys.stdout.write(f"process {jax.process_index()} of {jax.process_count()}: {sums[0]:g}\n")
