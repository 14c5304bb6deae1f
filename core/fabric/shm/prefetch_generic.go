//go:build !amd64 && !arm64

package shm

// PrefetchWrite does nothing on this processor.
func PrefetchWrite(*uint32) {}

// Prefetch does nothing on this processor.
func Prefetch([]byte) {}
