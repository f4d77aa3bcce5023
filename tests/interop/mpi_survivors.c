/* SPDX-License-Identifier: Apache-2.0
 * A program of Open MPI with ULFM: mpi_survivors ACTION RANK... The RANKs end as ACTION says, after MPI_Init: kill, exit,
 * or fail (with exit code 7). The others shrink to those that are left, and print what these have summed up. With
 * ACTION naive they do not handle the loss. */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end_as(const char* action) {
  if (strcmp(action, "exit") == 0) _exit(0);
  if (strcmp(action, "fail") == 0) _exit(7);
  raise(SIGKILL);
}

int main(int argc, char** argv) {
  int rank, left, error, one = 1;
  MPI_Comm survivors;
  signal(SIGPIPE, SIG_IGN); /* which Open MPI's TCP may cause when the other end is lost */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(argv[1], "naive") != 0) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 2; i < argc; ++i) {
    if (atoi(argv[i]) == rank) end_as(argv[1]);
  }
  do {
    error = MPI_Barrier(MPI_COMM_WORLD);
  } while (error == MPI_SUCCESS);
  MPIX_Comm_revoke(MPI_COMM_WORLD);
  MPIX_Comm_shrink(MPI_COMM_WORLD, &survivors);
  MPI_Allreduce(&one, &left, 1, MPI_INT, MPI_SUM, survivors);
  printf("rank %d is one of %d that are left\n", rank, left);
  fflush(stdout);
  MPI_Comm_free(&survivors);
  MPI_Finalize();
  return 0;
}
