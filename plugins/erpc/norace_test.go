//go:build !race

package erpc

const raceDetector = false
