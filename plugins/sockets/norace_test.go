//go:build !race

package sockets

const raceDetector = false
