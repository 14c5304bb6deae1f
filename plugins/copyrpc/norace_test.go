//go:build !race

package copyrpc

const raceDetector = false
