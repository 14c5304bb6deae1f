package soft

import "transportbench/core/fabric/endpoint"

// Work is for [rdma.WorkOf].
func (q *queuePair) Work() endpoint.Work {
	return endpoint.Work{Copies: q.copies, CopiedBytes: q.copiedBytes, Syscalls: q.syscalls}
}

// copied counts a copy of a payload.
func (q *queuePair) copied(bytes int) {
	q.copies++
	q.copiedBytes += uint64(bytes)
}

// Work is for [rdma.WorkOf].
func (n *softNotifier) Work() endpoint.Work { return endpoint.Work{Syscalls: n.syscalls} }
