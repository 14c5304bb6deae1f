//go:build !race

package grpc

const raceDetector = false
