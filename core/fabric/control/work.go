package control

import "transportbench/core/transport"

// Work counts what a worker does for its messages; see [transport.StatCopies]. Fast paths add to
// the fields of their own worker's Work, which no other thread writes.
type Work struct {
	Copies, CopiedBytes   uint64
	ChecksummedBytes      uint64
	Syscalls, KernelBytes uint64
	Doorbells             uint64
	HelperThreads         uint64
}

// Copied counts one copy of that many bytes.
func (w *Work) Copied(bytes int) {
	w.Copies++
	w.CopiedBytes += uint64(bytes)
}

// Plus returns the sum of w and other.
func (w Work) Plus(other Work) Work {
	return Work{
		Copies: w.Copies + other.Copies, CopiedBytes: w.CopiedBytes + other.CopiedBytes,
		ChecksummedBytes: w.ChecksummedBytes + other.ChecksummedBytes,
		Syscalls:         w.Syscalls + other.Syscalls, KernelBytes: w.KernelBytes +
			other.KernelBytes,
		Doorbells:     w.Doorbells + other.Doorbells,
		HelperThreads: w.HelperThreads + other.HelperThreads,
	}
}

// Append appends w as counters.
func (w Work) Append(dst []transport.Stat) []transport.Stat {
	return append(dst,
		transport.Stat{Name: transport.StatCopies,
			Help: "copies of payloads or of parts of them, without those of the kernel and of " +
				"devices", Value: w.Copies},
		transport.Stat{Name: transport.StatCopiedBytes, Help: "bytes of these copies",
			Value: w.CopiedBytes},
		transport.Stat{Name: transport.StatChecksummedBytes,
			Help:  "bytes of which the transport computed a checksum, to send or to verify it",
			Value: w.ChecksummedBytes},
		transport.Stat{Name: transport.StatSyscalls,
			Help: "system calls, including those that found nothing to do", Value: w.Syscalls},
		transport.Stat{Name: transport.StatKernelBytes,
			Help: "bytes that the kernel copied in these calls", Value: w.KernelBytes},
		transport.Stat{Name: transport.StatDoorbells,
			Help: "postings to a device, or notifications of a peer", Value: w.Doorbells},
		transport.Stat{Name: transport.StatHelperThreads, Help: "threads that the worker started",
			Value: w.HelperThreads, Level: true},
	)
}
