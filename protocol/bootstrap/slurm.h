/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Slurm's srun says by variables alone (srun(1), "OUTPUT ENVIRONMENT VARIABLES").
 *
 *   SLURM_STEP_ID              the step that this process is of; a batch script is of none
 *   SLURM_PROCID               rank
 *   SLURM_STEP_NUM_TASKS       size
 *   SLURM_LOCALID              rank on this node
 *   SLURM_NODEID               which node of the step this is, from 0
 *   SLURM_STEP_TASKS_PER_NODE  "2(x3),1"
 *   SLURM_STEP_NODELIST        "node[01-03]"; its first host has rank 0, unless
 *   SLURM_DISTRIBUTION         is "arbitrary"
 *   SLURM_JOB_ID, SLURM_CLUSTER_NAME   for the port and the name of the run
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_SLURM_H
#define BR_PROTOCOL_BOOTSTRAP_SLURM_H

struct br_environment;

/* Sets local_rank, local_size and local_known of *out, if this process is of a step of Slurm's;
 * nothing else otherwise. Returns 0, or -EINVAL with a message. */
int br_slurm_read_local(struct br_environment *out);

#endif
