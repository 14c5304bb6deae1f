//go:build amd64 || arm64

package spin

// Pause tells the processor that the thread spins. It does not leave the core.
func Pause()
