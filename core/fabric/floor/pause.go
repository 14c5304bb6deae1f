//go:build amd64 || arm64

package floor

// pause tells the processor that the thread spins. It does not leave the core.
func pause()
