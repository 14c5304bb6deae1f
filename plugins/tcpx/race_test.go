//go:build race

package tcpx

const raceDetector = true
