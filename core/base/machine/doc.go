// Package machine reads this machine: its processors and environment ([Topology], [Environment]),
// its clock ([Clock]), and the threads that run on it ([Pin], [Usage], [Counters]).
//
// Only [Clock.Now], [Clock.Nanos] and [Clock.Ticks] are meant for a measured loop. All other
// functions make system calls or allocate.
package machine
