// Package state finds the states of the machine, near, far and so on, that the core distances
// around windows show, and tells which windows of a set are in which.
package state
