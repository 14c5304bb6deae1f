package sample

import "transportbench/core/lab/store/result"

// putWork puts the work for each operation, as counted by the transport and by the runtime.
func putWork(repeat *result.Repeat, put func(string, float64)) {
	if n := repeat.BusyThreads(); n > 0 {
		put(result.Threads, float64(n))
	}
	transported, runtime, counted := repeat.Work()
	if !counted {
		return
	}
	put(result.CopiesPerOp, transported.Copies+runtime.Copies)
	put(result.CopiedBytesPerOp, transported.CopiedBytes+runtime.CopiedBytes)
	put(result.ChecksummedBytesPerOp, transported.ChecksummedBytes+runtime.ChecksummedBytes)
	put(result.SyscallsPerOp, transported.Syscalls)
	put(result.KernelBytesPerOp, transported.KernelBytes)
	put(result.DoorbellsPerOp, transported.Doorbells)
	put(result.HarnessBytesPerOp, runtime.CopiedBytes+runtime.ChecksummedBytes)
}
