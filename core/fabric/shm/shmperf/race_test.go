//go:build race

package shmperf

func init() { raceDetector = true }
