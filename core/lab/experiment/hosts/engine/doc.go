// Package engine starts agents on hosts by the means of the user's cluster: a command such as srun
// or mpirun, or ssh. It knows the variables by which these number the processes that they start.
package engine
