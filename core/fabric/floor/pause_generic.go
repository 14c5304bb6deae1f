//go:build !amd64 && !arm64

package floor

func pause() {}
