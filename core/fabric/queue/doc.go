// Package queue has a queue of bounded size for one thread.
package queue
