package transport

// Names of counters that mean the same in every transport, so that a result can compare the work
// that transports do for an operation. A worker that implements [StatsReader] counts each kind of
// work that its own code does. A kind that it leaves out is zero. [Properties.Uncounted] names a
// library that does such work out of the worker's sight.
const (
	// StatCopies counts copies of payloads, or of fragments of them, from memory to memory. It
	// leaves out those that the kernel or a device makes.
	StatCopies = "copies"
	// StatCopiedBytes counts the bytes of these copies, with headers that were copied along.
	StatCopiedBytes = "copied_bytes"
	// StatChecksummedBytes counts the bytes, of headers and payloads, over which the worker
	// computed a checksum, to send or to verify it.
	StatChecksummedBytes = "checksummed_bytes"
	// StatSyscalls counts system calls, including those that found nothing to do.
	StatSyscalls = "syscalls"
	// StatKernelBytes counts the bytes that the kernel copied from or to the worker in these
	// calls, headers included.
	StatKernelBytes = "kernel_bytes"
	// StatDoorbells counts notifications of the medium or the peer that something was posted:
	// postings to a device, and wake-ups of a peer. A system call that sends is no doorbell.
	StatDoorbells = "doorbells"
	// StatHelperThreads is the number of threads that the worker has started besides its own.
	StatHelperThreads = "helper_threads"
)
