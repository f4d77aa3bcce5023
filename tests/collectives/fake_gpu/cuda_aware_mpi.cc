// SPDX-License-Identifier: Apache-2.0
// Part of a program, before the MPI that it loads. It makes that MPI CUDA-aware, as the memory of
// the fake driver is the host's.

extern "C" [[gnu::visibility("default")]] int MPIX_Query_cuda_support() {
  return 1;
}
