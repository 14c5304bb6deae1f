package result

import "transportbench/core/transport"

// Work is what was done for each operation of a repeat, on both sides, as counted.
type Work struct {
	Copies           float64 // of payloads, without those of the kernel and of devices
	CopiedBytes      float64
	ChecksummedBytes float64
	Syscalls         float64
	KernelBytes      float64 // copied by the kernel in these calls
	Doorbells        float64
}

// Work returns the work of a repeat for each operation: that of the transport, by the counters of
// its workers, and that of the runtime, which is the same for every transport. counted reports
// whether the transport has counters of work.
func (r *Repeat) Work() (transported, runtime Work, counted bool) {
	ops := 0.0
	for _, c := range r.Clients() {
		ops += float64(c.Ops())
	}
	if ops == 0 {
		return transported, runtime, false
	}
	sum := map[string]float64{}
	add := func(list []transport.Stat) {
		for _, s := range list {
			sum[s.Name] += float64(s.Value) / ops
		}
	}
	for _, c := range r.Clients() {
		add(c.Transport)
		runtime.ChecksummedBytes += float64(c.ChecksummedBytes) / ops
	}
	for _, d := range r.Daemons() {
		add(d.Transport)
		runtime.ChecksummedBytes += float64(d.ChecksummedBytes) / ops
		runtime.CopiedBytes += float64(d.StoredBytes) / ops
		if d.StoredBytes > 0 {
			runtime.Copies += float64(d.Puts) / ops
		}
	}
	_, counted = sum[transport.StatCopies]
	transported = Work{
		Copies: sum[transport.StatCopies], CopiedBytes: sum[transport.StatCopiedBytes],
		ChecksummedBytes: sum[transport.StatChecksummedBytes],
		Syscalls:         sum[transport.StatSyscalls], KernelBytes: sum[transport.StatKernelBytes],
		Doorbells: sum[transport.StatDoorbells],
	}
	return transported, runtime, counted
}

// BusyThreads returns the number of threads of all ranks that worked in the repeat: those that
// poll, and helpers of the transport. It is 0 if the kernel does not report them.
func (r *Repeat) BusyThreads() (n int) {
	for _, report := range r.Ranks {
		n += report.Process.BusyThreads
	}
	return n
}
