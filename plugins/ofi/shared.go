package ofi

import "sync"

// An endpoint of provider shm sends to a second endpoint of the same process through the second
// one's mapping (libfabric 1.17), and crashes the process if the second one is closed. So
// libfabric's objects stay open until no endpoint of this process uses shm. A rank has one
// endpoint, so this matters only in tests.
var sharing struct {
	mu     sync.Mutex
	open   int
	closed []func() // closes what has to stay
}

func startSharing() {
	sharing.mu.Lock()
	defer sharing.mu.Unlock()
	sharing.open++
}

// stopSharing calls free once no endpoint of this process uses shm.
func stopSharing(free func()) {
	sharing.mu.Lock()
	defer sharing.mu.Unlock()
	sharing.closed = append(sharing.closed, free)
	if sharing.open--; sharing.open > 0 {
		return
	}
	for _, free := range sharing.closed {
		free()
	}
	sharing.closed = nil
}
