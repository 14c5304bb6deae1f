// Package state finds the states of the machine, near, far and so on, that the bounces around
// windows show.
package state
