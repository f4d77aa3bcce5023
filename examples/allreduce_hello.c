// SPDX-License-Identifier: Apache-2.0
// Every process contributes one number, and all of them get the sum, in C:
//
//     ddprun --nproc_per_node 4 allreduce_hello_c
#include <ddp/ddp.h>
#include <stdio.h>

static ddp_error* hello(void* context) {
  (void)context;
  ddp_group* group = NULL;
  ddp_error* error = ddp_init_process_group(NULL, &group);
  if (error != NULL) return error;
  float value = (float)(ddp_rank(group) + 1);
  ddp_buffer data = {.data = &value, .count = 1, .type = DDP_FLOAT32};
  error = ddp_all_reduce(group, &data, &data, DDP_SUM, NULL);
  if (error == NULL)
    printf("rank %d of %d: the sum is %g\n", ddp_rank(group), ddp_size(group), value);
  (error == NULL ? ddp_group_free : ddp_group_abandon)(group);
  return error;
}

int main(void) {
  return ddp_record(hello, NULL);
}
