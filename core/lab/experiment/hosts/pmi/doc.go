// Package pmi lets the tasks of one job exchange short values over PMI-1, the process management
// interface of "srun --mpi=pmi2" and of MPICH's mpiexec. The launcher passes each task a socket in
// PMI_FD, and answers one line of text for each line that it reads from it.
package pmi
