// Package matrix reads matrices of traffic: how much each rank calls each other one.
package matrix
