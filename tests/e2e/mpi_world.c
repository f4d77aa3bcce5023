/* SPDX-License-Identifier: Apache-2.0
 * A program of MPI: mpi_world [ACTION [RANK]]. It prints its place, and what all ranks have summed up. Then RANK does
 * what ACTION says, while the others wait for it: abort, exit, kill, spawn; or, before MPI_Init, skip. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* action = argc > 1 ? argv[1] : "";
  const int chosen = atoi(getenv("RANK")) == (argc > 2 ? atoi(argv[2]) : 0);
  if (strcmp(action, "skip") == 0 && chosen) pause();
  int rank, size, sum, on_node;
  MPI_Comm node;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &on_node);
  printf("rank %d of %d, %d on its node, sum %d, RANK %s, restart %s\n", rank, size, on_node, sum, getenv("RANK"),
         getenv("TORCHELASTIC_RESTART_COUNT"));
  fflush(stdout);
  const int first = strcmp(getenv("TORCHELASTIC_RESTART_COUNT"), "0") == 0;
  if (chosen && strcmp(action, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 3);
  if (chosen && strcmp(action, "exit") == 0) _exit(0);
  if (chosen && strcmp(action, "kill") == 0 && first) raise(SIGKILL);
  if (strcmp(action, "spawn") == 0) {
    MPI_Comm children;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, NULL);
    printf("spawn %s\n", error == MPI_SUCCESS ? "works" : "is refused");
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
