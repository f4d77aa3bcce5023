# SPDX-License-Identifier: Apache-2.0
"""Adds a number of each process with JAX: psum.py [PORT]. The coordinator is rank 0, as docs/jax.md describes; PORT is
its port beside a store behind tunnels."""
import os
import sys

import jax

if len(sys.argv) == 1:
    coordinator = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
else:
    coordinator = f"{os.environ['DDPRUN_MASTER_ADDR']}:{sys.argv[1]}"
jax.distributed.initialize(
    coordinator,
    int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))  # fmt: skip

from jax.experimental import multihost_utils  # after initialize
import jax.numpy as jnp

mine = jnp.full((jax.local_device_count(),), float(jax.process_index() + 1))
sums = jax.pmap(lambda x: jax.lax.psum(x, "workers"), axis_name="workers")(mine)
# At once: torchrun's workers share the file.
sys.stdout.write(f"process {jax.process_index()} of {jax.process_count()}: {sums[0]:g}\n")
