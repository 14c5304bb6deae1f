// Package transporttest is the conformance suite of package transport. Every
// clause of the contract is a named subtest with a time limit, and every
// subtest is known to catch at least one broken transport.
//
// A transport joins with one test:
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, transporttest.Suite{
//			Driver:  shm.Driver{},
//			Options: map[string]string{"ring": "lamport"},
//		})
//	}
//
// The suite opens all ranks in its own process and drives most clauses from
// one goroutine, so that a failure is the same each time. It counts the
// process's allocations, goroutines and descriptors in some clauses; the test
// that calls [Run] must therefore not be parallel.
//
// What the suite cannot provoke through the interface, a transport tests by
// itself: ErrCorrupt, and delivery on a medium that drops messages.
//
// The package also has what the users of a transport need in their tests:
// [Memory], a correct transport within one process, [Device], the same with
// payloads in device memory, and [Poison], which makes a payload that is held
// too long visible.
package transporttest
