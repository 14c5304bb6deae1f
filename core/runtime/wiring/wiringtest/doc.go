// Package wiringtest connects the workers of a run in one process, without ranks and their threads.
package wiringtest
