// SPDX-License-Identifier: Apache-2.0
// In a program, in front of the MPI that it loads: that MPI is CUDA-aware, for the memory of the
// driver beside this is the host's.

extern "C" [[gnu::visibility("default")]] int MPIX_Query_cuda_support() {
  return 1;
}
