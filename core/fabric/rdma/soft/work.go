package soft

import "transportbench/core/fabric/control"

// Work is for [rdma.WorkOf].
func (q *queuePair) Work() control.Work {
	return control.Work{Copies: q.copies, CopiedBytes: q.copiedBytes, Syscalls: q.syscalls}
}

// copied counts a copy of a payload.
func (q *queuePair) copied(bytes int) {
	q.copies++
	q.copiedBytes += uint64(bytes)
}

// Work is for [rdma.WorkOf].
func (n *softNotifier) Work() control.Work { return control.Work{Syscalls: n.syscalls} }
