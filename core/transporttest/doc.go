// Package transporttest is the conformance suite of package transport. Every clause of the
// contract is a named subtest with a time limit, and for every subtest there is a broken transport
// that it catches.
//
// A transport needs one test:
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, transporttest.Suite{
//			Driver:  shm.Driver{},
//			Options: map[string]string{"ring": "lamport"},
//		})
//	}
//
// The suite opens all ranks in the test's process and runs most clauses on one goroutine, so that
// a failure is reproducible. Some clauses count the allocations, goroutines and descriptors of the
// process, so the test that calls [Run] must not be parallel.
//
// A transport must test by itself what the suite cannot provoke through the interface: ErrCorrupt,
// and delivery on a medium that drops messages.
package transporttest
