package rdma

import "transportbench/core/fabric/control"

// workCounter is implemented by the queue pairs and notifiers of the soft device, which do in
// software what a device does.
type workCounter interface{ Work() control.Work }

// WorkOf returns the copies and system calls that a queue pair or a notifier has made. Those of
// verbs make none that can be counted here: a device copies, and libibverbs makes the system
// calls.
func WorkOf(object any) control.Work {
	if c, ok := object.(workCounter); ok {
		return c.Work()
	}
	return control.Work{}
}
