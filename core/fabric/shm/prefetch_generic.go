//go:build !amd64 && !arm64

package shm

// PrefetchWrite is a hint that this processor has no use for.
func PrefetchWrite(*uint32) {}
